"""The buffer between a network that delivers in bursts and a speaker that plays steadily."""

from __future__ import annotations

import asyncio
import threading

from leonidas_tools.cli.voice.interface import BYTES_PER_SAMPLE, SPEAKER_HERTZ

_BYTES_PER_SECOND = SPEAKER_HERTZ * BYTES_PER_SAMPLE
_PREFILL_SECONDS = 0.06
_MAX_REST_SECONDS = 1.0


class JitterBuffer:
    r"""A buffer of audio: the event loop adds audio, and the thread of the speaker takes it.

    After silence, playing starts once the buffered audio and the time waited together reach
    `prefill_seconds`, so that audio that is late by less than that leaves no gap.

    Example:
        >>> buffer = JitterBuffer(prefill_seconds=0)
        >>> buffer.play(b"abcd")
        >>> buffer.take(2), buffer.take(4)
        (b'ab', b'cd\x00\x00')
    """

    def __init__(self, prefill_seconds: float = _PREFILL_SECONDS) -> None:
        self._prefill = int(prefill_seconds * _BYTES_PER_SECOND)
        self._sound = bytearray()
        self._waited = 0
        self._playing = False
        self._lock = threading.Lock()

    def play(self, sound: bytes) -> None:
        """Queue audio to be played after the queued audio; return at once."""
        with self._lock:
            self._sound += sound

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes of audio, padded with silence."""
        with self._lock:
            if not self._may_play(count):
                return bytes(count)
            taken = bytes(self._sound[:count])
            del self._sound[:count]
            if len(taken) < count:
                self._playing = False
            return taken.ljust(count, b"\0")

    def flush(self) -> None:
        """Drop the audio that is not played yet."""
        with self._lock:
            self._sound.clear()
            self._playing = False

    async def drain(self) -> None:
        """Wait as long as the buffered audio lasts, and up to a second more for a slow speaker."""
        await asyncio.sleep(self._seconds())
        left = self._seconds()
        if left:  # the speaker started late, or its clock is slower
            await asyncio.sleep(min(left, _MAX_REST_SECONDS))

    def _may_play(self, count: int) -> bool:
        if not self._playing and self._sound:
            self._playing = len(self._sound) + self._waited >= self._prefill
            self._waited = 0 if self._playing else self._waited + count
        return self._playing

    def _seconds(self) -> float:
        with self._lock:
            return len(self._sound) / _BYTES_PER_SECOND
