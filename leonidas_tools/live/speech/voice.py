"""Change the pace and, without clicks, the volume of one voice, from bytes to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leonidas_tools.live.speech.stretch import TimeStretch

if TYPE_CHECKING:
    from leonidas_tools.live.speech.stretch import Samples

_SCALE = 32768.0
_RAMP_SECONDS = 0.01
_STEEPEST_KNEE = 0.5


class Voice:
    """Changes the pace and the loudness of 16-bit mono PCM.

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
        """Return whether audio that is added now would be returned changed or later."""
        return not (rate == volume == self._gain.volume == 1.0 and self._stretch.held == 0)

    def feed(self, data: bytes | memoryview, *, rate: float, volume: float) -> bytes:
        """Add audio, and return the audio that is ready."""
        samples = np.frombuffer(data, "<i2").astype(np.float32) / np.float32(_SCALE)
        return _written(self._stretch.feed(self._gain.feed(samples, volume), rate))

    def flush(self) -> bytes:
        """Return the held audio."""
        return _written(self._stretch.flush())


def _written(samples: Samples) -> bytes:
    written: bytes = np.clip(np.rint(samples * _SCALE), -_SCALE, _SCALE - 1).astype("<i2").tobytes()
    return written


class Gain:
    """Multiplies audio by a volume, and reaches a new volume in a ramp (1.0 in 10 ms).

    Example:
        >>> gain = Gain(24_000, 0.5)
        >>> gain.feed(np.array([0.5, -0.5], np.float32), 0.5).tolist()
        [0.25, -0.25]
    """

    def __init__(self, hertz: int, volume: float) -> None:
        self.volume = volume
        self._step = 1.0 / (_RAMP_SECONDS * hertz)

    def feed(self, samples: Samples, volume: float) -> Samples:
        """Return the samples at a volume, and compress those that would exceed 1."""
        if volume == self.volume == 1.0 or not len(samples):
            return samples
        way = self._step * np.arange(1, len(samples) + 1, dtype=np.float32)
        if volume >= self.volume:
            volumes = np.minimum(self.volume + way, volume)
        else:
            volumes = np.maximum(self.volume - way, volume)
        loud: Samples = (samples * volumes).astype(np.float32)
        self.volume = volume if volumes[-1] == np.float32(volume) else float(volumes[-1])
        return loud if volumes.max() <= 1.0 else _bent(loud, volumes.astype(np.float32))


def _bent(samples: Samples, volumes: Samples) -> Samples:
    """Compress samples above a knee, which is lower at a higher volume (1.0: no compression)."""
    knee = 1.0 - np.clip(volumes - 1.0, 1e-6, _STEEPEST_KNEE)
    above = np.abs(samples) - knee
    bent = knee + (1.0 - knee) * np.tanh(np.maximum(above, 0.0) / (1.0 - knee))
    result: Samples = np.where(above > 0.0, np.copysign(bent, samples), samples).astype(np.float32)
    return result
