"""A conversation in sound: a user who speaks, a listener at the speaker, a model that has ears."""

import asyncio

from genai_processors.content_api import ProcessorPart

from leonidas_tools.live.speech.output import SpeechOutputProcessor
from tests.live.speech.sounds import rms
from tests.live.talking import FRAME_BYTES, RATE, Talk
from tests.voice.models import MODEL_HERTZ, USER_HERTZ, read

FRAME_SECONDS = 0.02
SAMPLE_BYTES = 2
LOUD = 0.02


class SpokenTalk(Talk):
    """A conversation whose listener hears what the speech tools have set."""

    def __init__(self, simulator, tools, *, paced=False, **options):
        super().__init__(simulator, tools, **options)
        self.agent += SpeechOutputProcessor(paced=paced)


class SimulatedEars:
    """How a simulated model hears the user, over one connection or several.

    Args:
        ears: What understands sound.
    """

    def __init__(self, ears):
        self._ears = ears
        self._pcm = b""

    async def begin(self, session, frames=0):
        """Listens until there is a voice, and to so many frames of it."""
        while not _is_loud((await self._frame(session)).data):
            pass
        for _ in range(frames):
            await self._frame(session)

    async def sentence(self, session):
        """Listens until the microphone is switched off, and tells the client what was said."""
        while (piece := await self._frame(session)).kind == "audio":
            pass
        assert piece.text == "audioStreamEnd"
        text = await asyncio.to_thread(self._ears.understand, self._pcm, hertz=USER_HERTZ)
        self._pcm = b""
        await session.input_transcription(text)
        return text

    async def _frame(self, session):
        (piece,) = await session.wait_for_input()
        self._pcm += piece.data
        return piece


async def microphone(pcm, *, speed=1.0):
    """16-bit PCM as a microphone gives it, which is switched off at the end."""
    for at in range(0, len(pcm), FRAME_BYTES):
        frame = pcm[at : at + FRAME_BYTES]
        yield ProcessorPart(frame, mimetype=RATE, substream_name="realtime")
        await asyncio.sleep(FRAME_SECONDS / speed)
    yield ProcessorPart("", substream_name="realtime", metadata={"audio_stream_end": True})


def _is_loud(pcm):
    return rms(read(pcm)) > LOUD


def is_sound(part):
    return (part.mimetype or "").startswith("audio/")


def sound_of(parts):
    """The sound in what the listener was given, as one piece."""
    return b"".join(part.bytes for part in parts if is_sound(part))


def understood(parts):
    """What the listener was told that the user said."""
    return "".join(part.text for part in parts if part.substream_name == "input_transcription")


def seconds_of(pcm):
    """How long the model's sound lasts."""
    return len(pcm) / SAMPLE_BYTES / MODEL_HERTZ
