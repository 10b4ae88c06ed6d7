"""Speech that changes while it is spoken: pace, loudness, pauses and emphasis."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from genai_processors import processor

from leonidas_tools.live.speech.output import Output
from leonidas_tools.processors import stream
from leonidas_tools.processors.stage import Stage
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.session.speech import SpeechState

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.live.speech.output import MakeVoice

logger = visible_logger(__name__)


class SpeechOutputProcessor(Stage):
    """Lets the listener hear what the speech tools have set.

    It stands behind a model and changes the sound that comes from it, by the `SpeechState` of the
    conversation: `rate` without a change of pitch, `volume`, `paused_until` and `emphasis`. A
    change is heard from the next sound that is handed on. Sound is 16-bit mono PCM
    (`audio/pcm;rate=24000`, or another rate); while nothing is to be changed it passes as it is,
    at once.

    Which conversation: the one given here, else the one of the stream. In
    `LiveToolSession(live, tools) + SpeechOutputProcessor()` that is the session's own; in
    `live + tools + SpeechOutputProcessor()` the stages before it are given the same one. A
    `LiveToolSession` with another session than the one given here is not heard.

    Other parts pass at once and in their order. While sound is held by a pause (or by `paced`) they
    overtake it, all but `generation_complete` and `turn_complete`, which stay behind the sound that
    they end. A part with `interrupted` drops everything that is held. At another rate than 1.0, up
    to 31 ms of sound are held back; the end of a turn, or of the stream, hands on the rest.

    Emphasis is only as precise as the transcript (substream `output_transcription`, to be switched
    on in the configuration of the model), which says nothing of when a word is spoken. The words
    are stressed within a few tenths of a second where the transcript comes with the sound or ahead
    of it; where it comes later, what follows the words is stressed; without one nothing is. Words
    are stressed once, and only where sound is left to be handed on.

    What has been handed on cannot be called back. Live sends faster than it speaks, so a player
    with a long queue hears of a change late: use `paced`, or a player that keeps little.

    Args:
        session: The conversation that is spoken in.
        speech: The speech settings, without a conversation.
        paced: Hands sound on as fast as it is played, at most 0.2 s ahead, so that interruptions
            and changes are heard at once.

    Example:
        >>> speech = SpeechState()
        >>> _ = speech.set(volume=0.5)
        >>> stage = SpeechOutputProcessor(speech=speech)
    """

    def __init__(
        self,
        *,
        session: ToolSession | None = None,
        speech: SpeechState | None = None,
        paced: bool = False,
    ) -> None:
        self._session = session
        self._speech = speech
        self._paced = paced
        self._make_voice = _voices()

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Yield the parts with changed sound."""
        output = Output(self._make_voice, paced=self._paced)
        reading = processor.create_task(self._read(content, output))
        try:
            async for part in output.parts():
                yield part
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            output.close()

    async def _read(self, content: AsyncIterable[ProcessorPart], output: Output) -> None:
        """Take in everything at once, so that a slow player holds back nothing before it."""
        try:
            # Stages before this one run in the context of this task, and leave their session in it.
            stream.use_session(self._session or stream.session())
            output.follow(self._state())
            if self._speech is None and self._session is None:
                stream.on_session(lambda session: output.follow(session.get(SpeechState)))
            async for part in content:
                output.follow(self._state())
                output.put(part)
        except Exception as error:  # noqa: BLE001 - raised to the reader of the stream
            output.end(error)
        else:
            output.end()

    def _state(self) -> SpeechState:
        return self._speech or (self._session or stream.session()).get(SpeechState)


def _voices() -> MakeVoice | None:
    """Load what makes voices, with the first stage and not within a conversation."""
    try:
        from leonidas_tools.live.speech.voice import Voice
    except ImportError as error:
        logger.warning(
            "Speech keeps its rate, volume and stress: %s (install 'leonidas-tools[speech]')", error
        )
        return None
    return Voice
