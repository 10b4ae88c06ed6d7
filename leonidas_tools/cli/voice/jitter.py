"""The buffer between a network that delivers in bursts and a speaker that plays steadily."""

from __future__ import annotations

import asyncio
import threading

from leonidas_tools.cli.voice.interface import BYTES_PER_SAMPLE, SPEAKER_HERTZ

_BYTES_PER_SECOND = SPEAKER_HERTZ * BYTES_PER_SAMPLE
_PREFILL_SECONDS = 0.06
_LONGEST_REST_SECONDS = 1.0


class JitterBuffer:
    r"""Sound that waits to be played: the event loop adds it, the thread of the speaker takes it.

    After a silence it waits until it holds a little, or as long as that little lasts: so sounds
    that come late by less than that leave no gap.

    Playing begins when `prefill_seconds` of sound are there.

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
        """Play a sound after what is waiting; returns at once."""
        with self._lock:
            self._sound += sound

    def take(self, count: int) -> bytes:
        """Return the next sound of so many bytes; what is missing is silence."""
        with self._lock:
            if not self._may_play(count):
                return bytes(count)
            taken = bytes(self._sound[:count])
            del self._sound[:count]
            if len(taken) < count:
                self._playing = False
            return taken.ljust(count, b"\0")

    def flush(self) -> None:
        """Drop the sound that is not played yet."""
        with self._lock:
            self._sound.clear()
            self._playing = False

    async def drained(self) -> None:
        """Wait as long as the waiting sound lasts, and a little longer for a slow speaker."""
        await asyncio.sleep(self._seconds())
        left = self._seconds()
        if left:  # it began late, or its clock is slower than ours
            await asyncio.sleep(min(left, _LONGEST_REST_SECONDS))

    def _may_play(self, count: int) -> bool:
        if not self._playing and self._sound:
            self._playing = len(self._sound) + self._waited >= self._prefill
            self._waited = 0 if self._playing else self._waited + count
        return self._playing

    def _seconds(self) -> float:
        with self._lock:
            return len(self._sound) / _BYTES_PER_SECOND
