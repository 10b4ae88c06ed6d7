"""Apply pace, loudness, pauses and emphasis to speech while it is played."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from genai_processors import processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools.live.speech.stress import SpokenWords
from leonidas_tools.processors import stream
from leonidas_tools.processors.stage import Stage
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.session.speech import SpeechState

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.live.speech.voice import Voice
    from leonidas_tools.session.speech import SpeechSettings

    MakeVoice: TypeAlias = Callable[[int, float], Voice]

logger = visible_logger(__name__)
_BYTES_PER_SAMPLE = 2
_HERTZ = 24_000
_MIN_HERTZ, _MAX_HERTZ = 8_000, 192_000
"""Limits of the rates that are changed; at 1 Hz, each sample would become a separate part."""
_MAX_HERTZ_DIGITS = 6
_BURST = 16
_MICROPHONE = "realtime"
_TRANSCRIPT = "output_transcription"
_ENDS = ("generation_complete", "turn_complete")
_SLICE_SECONDS = 0.1
_LEAD_SECONDS = 0.1
_MIN_WAIT_SECONDS = 0.001
_STRESSED_RATE = 0.8
_STRESSED_VOLUME = 1.5
_HEARD_WITHOUT_VOICE = ("paused_until",)
_HEARD = ("rate", "volume", "emphasis", *_HEARD_WITHOUT_VOICE)


@dataclass(kw_only=True, slots=True)
class Sound:
    """Audio of the model.

    Args:
        part: The part that contained it.
        hertz: Samples per second.
        data: Whole samples that were not yielded yet.
    """

    part: ProcessorPart
    hertz: int
    data: memoryview


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The end of some audio: none of that audio may be yielded later.

    Args:
        part: The part that marks the end; `None` for the end of the stream.
        failure: The exception that ended the stream.
    """

    part: ProcessorPart | None = None
    failure: Exception | None = None


class SpeechQueue:
    """A queue of parts in order; while audio is held, other parts overtake it.

    Example:
        >>> from genai_processors.content_api import ProcessorPart
        >>> queue = SpeechQueue()
        >>> queue.put(Mark()), queue.put(ProcessorPart("Hello"))
        (None, None)
        >>> queue.next(held=True).text, queue.next(held=True)
        ('Hello', None)
        >>> queue.next(held=False)
        Mark(part=None, failure=None)
    """

    def __init__(self) -> None:
        self._count = 0
        self._sounds: deque[tuple[int, Sound | Mark]] = deque()
        self._others: deque[tuple[int, ProcessorPart]] = deque()

    @property
    def has_sound(self) -> bool:
        """Return whether audio, or the end of audio, is queued."""
        return bool(self._sounds)

    def put(self, item: Sound | Mark | ProcessorPart) -> None:
        """Add an item at the end."""
        self._count += 1
        if isinstance(item, Sound | Mark):
            self._sounds.append((self._count, item))
        else:
            self._others.append((self._count, item))

    def put_back(self, sound: Sound) -> None:
        """Put the rest of some audio back at the front."""
        self._sounds.appendleft((0, sound))

    def next(self, *, held: bool) -> Sound | Mark | ProcessorPart | None:
        """Remove and return the next item, but no audio if audio is held."""
        sounds = () if held else self._sounds
        if sounds and (not self._others or sounds[0][0] < self._others[0][0]):
            return self._sounds.popleft()[1]
        return self._others.popleft()[1] if self._others else None

    def drop_sound(self) -> None:
        """Drop all audio, but keep the parts that mark its end, in order."""
        marks = [(n, m.part) for n, m in self._sounds if isinstance(m, Mark) and m.part is not None]
        self._others = deque(sorted([*self._others, *marks], key=lambda each: each[0]))
        self._sounds.clear()


class Output:
    """Buffers parts, and yields each when it may be played, with the speech settings applied.

    Args:
        make_voice: Creates a voice from its samples per second and volume; `None` if audio cannot
            be changed.
        paced: Whether audio is yielded only as fast as it is played.
    """

    def __init__(self, make_voice: MakeVoice | None, *, paced: bool) -> None:
        self._make_voice = make_voice
        self._changes: tuple[str, ...] = _HEARD if make_voice else _HEARD_WITHOUT_VOICE
        self._paced = paced
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._queue = SpeechQueue()
        self._speech = SpeechState()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._words = SpokenWords()
        self._arrived_seconds = 0.0
        self._given_seconds = 0.0
        self._half_sample = b""
        self._voice: Voice | None = None
        self._last_sound: ProcessorPart | None = None
        self._played_until = 0.0

    def follow(self, speech: SpeechState) -> None:
        """Apply these settings from now on."""
        if speech is not self._speech:
            self._unsubscribe()
            self._speech = speech
            self._unsubscribe = speech.on_change(self._wake, heard=self._changes)

    def close(self) -> None:
        """Unsubscribe from changes of the settings."""
        self._unsubscribe()

    def put(self, part: ProcessorPart) -> None:
        """Add a part, and drop the held audio if the part signals a barge-in."""
        if part.get_metadata("interrupted"):
            self._drop()
        elif part.substream_name == _TRANSCRIPT:
            wanted = self._speech.current.emphasis
            self._words.hear(part.part.text or "", at=self._arrived_seconds, wanted=wanted)
        item = self._item(part)
        if item is not None:
            self._queue.put(item)
            self._changed.set()

    def end(self, failure: Exception | None = None) -> None:
        """End the input."""
        self._queue.put(Mark(failure=failure))
        self._changed.set()

    async def parts(self) -> AsyncIterator[ProcessorPart]:
        """Yield each part when it may be played."""
        for number in itertools.count(1):
            if number % _BURST == 0:
                await asyncio.sleep(0)  # one part may have minutes of audio
            self._changed.clear()
            held_seconds = self._hold_seconds()
            item = self._queue.next(held=held_seconds > 0)
            if item is None:
                await self._changes_within(held_seconds if self._queue.has_sound else None)
                continue
            for part in self._process_item(item):
                yield part
            if isinstance(item, Mark) and item.part is None:
                if item.failure is not None:
                    raise item.failure
                return

    def _process_item(self, item: Sound | Mark | ProcessorPart) -> list[ProcessorPart]:
        if isinstance(item, Sound):
            return self._heard(item)
        if isinstance(item, Mark):
            return [*self._tail(), *([item.part] if item.part is not None else [])]
        return [item]

    def _item(self, part: ProcessorPart) -> Sound | Mark | ProcessorPart | None:
        """Return the queue item for a part; keep half a sample until the rest arrives."""
        hertz = _hertz_of(part)
        if hertz is not None:
            data = self._half_sample + (part.bytes or b"")
            whole = len(data) // _BYTES_PER_SAMPLE * _BYTES_PER_SAMPLE
            self._half_sample = data[whole:]
            self._arrived_seconds += whole / _BYTES_PER_SAMPLE / hertz
            return Sound(part=part, hertz=hertz, data=memoryview(data)[:whole]) if whole else None
        if any(part.get_metadata(end) for end in _ENDS):
            if part.get_metadata("turn_complete"):
                self._words.end_turn(self._arrived_seconds)
            return Mark(part=part)
        return part

    def _drop(self) -> None:
        """Drop the held audio after a barge-in."""
        self._queue.drop_sound()
        self._voice = None
        self._half_sample = b""
        self._given_seconds = self._arrived_seconds
        self._played_until = 0.0
        self._words = SpokenWords()

    def _heard(self, sound: Sound) -> list[ProcessorPart]:
        """Return the next slice of audio with the settings applied, and put back the rest."""
        settings = self._speech.current
        stress, until_seconds = self._words.at(self._given_seconds, settings.emphasis)
        if stress is not None and stress.words in settings.emphasis:
            self._speech.emphasized(stress.words)
        rate = settings.rate * (_STRESSED_RATE if stress else 1.0)
        volume = settings.volume * (_STRESSED_VOLUME if stress else 1.0)
        before, voice = self._voice_for(sound.hertz, volume)
        if voice is not None and not voice.changes(rate=rate, volume=volume):
            voice = None
        data: bytes | memoryview = self._slice(
            sound, until_seconds, whole=voice is None and not self._paced
        )
        if voice is not None:
            data = voice.feed(data, rate=rate, volume=volume)
        return [*before, *self._build_parts(sound.part, data)]

    def _voice_for(self, hertz: int, volume: float) -> tuple[list[ProcessorPart], Voice | None]:
        """Return the rest of the previous voice's audio, and the voice for this audio."""
        if self._make_voice is None or (self._voice and self._voice.hertz == hertz):
            return [], self._voice
        before, self._voice = self._tail(), self._make_voice(hertz, volume)
        return before, self._voice

    def _slice(self, sound: Sound, until_seconds: float, *, whole: bool) -> memoryview:
        """Cut off a slice to which one set of settings applies."""
        seconds = until_seconds - self._given_seconds
        if not whole:
            seconds = min(seconds, _SLICE_SECONDS)
        samples = len(sound.data) // _BYTES_PER_SAMPLE
        samples = max(1, math.ceil(min(samples, seconds * sound.hertz)))
        data = sound.data[: samples * _BYTES_PER_SAMPLE]
        sound.data = sound.data[len(data) :]
        if sound.data:
            self._queue.put_back(sound)
        self._given_seconds += samples / sound.hertz
        return data

    def _tail(self) -> list[ProcessorPart]:
        """Return the audio that the voice still holds."""
        if self._voice is None or self._last_sound is None:
            return []
        return self._build_parts(self._last_sound, self._voice.flush(), tail=True)

    def _build_parts(
        self, like: ProcessorPart, data: bytes | memoryview, *, tail: bool = False
    ) -> list[ProcessorPart]:
        """Return a part with this audio, or the original part if the audio is unchanged."""
        self._last_sound = like
        if not data:
            return []
        seconds = len(data) / _BYTES_PER_SAMPLE / (_hertz_of(like) or 1)
        self._played_until = max(self._played_until, self._loop.time()) + seconds
        if data == like.bytes:
            return [like]
        return [_sound_part(like, bytes(data), metadata=not tail)]

    def _hold_seconds(self) -> float:
        """Return how many seconds to hold the audio."""
        ahead = self._played_until - self._loop.time() - _LEAD_SECONDS if self._paced else 0.0
        return max(self._speech.paused_seconds, ahead if ahead > _MIN_WAIT_SECONDS else 0.0)

    async def _changes_within(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _wake(self, _settings: SpeechSettings) -> None:
        """Wake the stream, also from another thread, such as that of a tool."""
        self._loop.call_soon_threadsafe(self._changed.set)


def _hertz_of(part: ProcessorPart) -> int | None:
    """Return the samples per second of the model's audio, or `None` for every other part.

    Only 16-bit mono PCM of 8 to 192 kHz counts. The default rate is 24 kHz, as the Live API sends.

    Example:
        >>> _hertz_of(ProcessorPart(b"..", mimetype="audio/pcm;rate=16000", role="model"))
        16000
        >>> _hertz_of(ProcessorPart("Hello"))
    """
    blob = part.part.inline_data
    if blob is None or not blob.data:
        return None
    if part.role == "user" or part.substream_name == _MICROPHONE:
        return None
    kind, *parameters = (blob.mime_type or "").lower().replace(" ", "").split(";")
    values = dict(each.partition("=")[::2] for each in parameters)
    if kind != "audio/pcm" or values.get("channels", "1") != "1":
        return None
    hertz = values.get("rate", str(_HERTZ))
    if not (hertz.isascii() and hertz.isdigit() and len(hertz) <= _MAX_HERTZ_DIGITS):
        return None
    return int(hertz) if _MIN_HERTZ <= int(hertz) <= _MAX_HERTZ else None


def _sound_part(like: ProcessorPart, data: bytes, *, metadata: bool = True) -> ProcessorPart:
    """Return a copy of a part with other audio."""
    return ProcessorPart(
        data,
        mimetype=like.mimetype,
        role=like.role,
        substream_name=like.substream_name,
        metadata=dict(like.metadata) if metadata else {},
    )


class SpeechOutputProcessor(Stage):
    """Applies the settings of the speech tools to the model's audio.

    Add it after a model. It applies the `SpeechState` of the conversation: `rate` without a change
    of pitch, `volume`, `paused_until` and `emphasis`. A change applies from the next audio that is
    yielded. Audio is 16-bit mono PCM (`audio/pcm;rate=24000`, or another rate). If there is nothing
    to change, it passes unchanged and at once.

    The conversation is `session`, or else that of the stream. In
    `LiveToolSession(live, tools) + SpeechOutputProcessor()` that is the session's own; in
    `live + tools + SpeechOutputProcessor()` the earlier stages receive the same conversation. The
    settings of a `LiveToolSession` with a session other than `session` do not apply.

    Other parts pass at once and in order. While audio is held by a pause (or by `paced`), they
    overtake it, except `generation_complete` and `turn_complete`, which stay after the audio that
    they end. A part with `interrupted` drops all held audio. At a rate other than 1.0, up to 31 ms
    of audio are held; the end of a turn, or of the stream, releases them.

    Emphasis is only as precise as the transcription (substream `output_transcription`, which the
    configuration of the model must enable), because a transcription has no times. Words are
    stressed within a few tenths of a second if the transcription comes with the audio or before it.
    If it comes later, the audio after the words is stressed; without it, nothing is. Words are
    stressed once, and only if some of their audio was not yielded yet.

    Audio that was yielded cannot be changed. Live sends faster than it speaks, so a player with a
    long buffer applies a change late: use `paced`, or a player with a short buffer.

    Args:
        session: The conversation whose settings apply.
        speech: Speech settings to use instead of a conversation's.
        paced: Whether to yield audio only as fast as it is played, at most 0.2 s ahead, so that
            interruptions and changes take effect at once.

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
        """Yield the parts with changed audio."""
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
        """Read all input at once, so that a slow player delays no earlier stage."""
        try:
            # Earlier stages run in the context of this task, and leave their session in it.
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
    """Import the voice class when a stage is created, and not during a conversation."""
    try:
        from leonidas_tools.live.speech.voice import Voice
    except ImportError as error:
        logger.warning(
            "Speech rate, volume and emphasis are disabled: %s (install 'leonidas-tools[speech]')",
            error,
        )
        return None
    return Voice
