"""The sound of one voice, from bytes to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leonidas_tools.live.speech.gain import Gain
from leonidas_tools.live.speech.stretch import TimeStretch

if TYPE_CHECKING:
    from leonidas_tools.live.speech.stretch import Samples

_SCALE = 32768.0


class Voice:
    """16-bit mono PCM at another pace and loudness.

    Args:
        hertz: Samples per second.
        volume: How loud it starts.

    Example:
        >>> voice = Voice(24_000, 1.0)
        >>> voice.changes(rate=1.0, volume=1.0), voice.changes(rate=1.5, volume=1.0)
        (False, True)
        >>> len(voice.feed(bytes(4_800), rate=2.0, volume=1.0) + voice.flush()) < 4_800
        True
    """

    def __init__(self, hertz: int, volume: float) -> None:
        self.hertz = hertz
        self._gain = Gain(hertz, volume)
        self._stretch = TimeStretch(hertz)

    def changes(self, *, rate: float, volume: float) -> bool:
        """Return whether sound that comes now would come out other than it is."""
        return not (rate == volume == self._gain.volume == 1.0 and self._stretch.held == 0)

    def feed(self, data: bytes | memoryview, *, rate: float, volume: float) -> bytes:
        """Take in some sound and return what can be heard by now."""
        samples = np.frombuffer(data, "<i2").astype(np.float32) / np.float32(_SCALE)
        return _written(self._stretch.feed(self._gain.feed(samples, volume), rate))

    def flush(self) -> bytes:
        """Return what is held."""
        return _written(self._stretch.flush())


def _written(samples: Samples) -> bytes:
    written: bytes = np.clip(np.rint(samples * _SCALE), -_SCALE, _SCALE - 1).astype("<i2").tobytes()
    return written
