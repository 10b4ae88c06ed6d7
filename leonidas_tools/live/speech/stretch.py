"""Change the speed of streamed speech at the same pitch."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Samples: TypeAlias = NDArray[np.float32]

_HIGHEST_PITCH_HERTZ = 400
_LOWEST_PITCH_HERTZ = 65
_NOTHING_ADDED = 1e-9


class TimeStretch:
    """Leaves out or repeats pitch periods of a voice where they are most similar.

    Audio is copied unchanged up to the next splice. A splice cross-fades to the position that
    continues it best, one pitch period or a little more ahead or back (time-domain overlap-add
    steered by normalised cross-correlation, as in WSOLA). At most two periods of the lowest pitch
    (31 ms) are held, in their original form. So nothing is lost, and a change of the rate, `flush`
    and the return to 1.0 are seamless.

    Example:
        >>> stretch = TimeStretch(24_000)
        >>> second = np.sin(np.arange(24_000, dtype=np.float32) * 0.05)
        >>> faster = np.concatenate([stretch.feed(second, 2.0), stretch.flush()])
        >>> 0.49 < len(faster) / len(second) < 0.53
        True
    """

    def __init__(self, hertz: int) -> None:
        self._shortest = max(1, hertz // _HIGHEST_PITCH_HERTZ)
        self._longest = max(self._shortest + 1, hertz // _LOWEST_PITCH_HERTZ)
        self._held: Samples = np.empty(0, np.float32)
        self._rate = 1.0
        self._to_copy = 0.0

    @property
    def held(self) -> int:
        """Return the number of samples that are held."""
        return len(self._held)

    def feed(self, samples: Samples, rate: float) -> Samples:
        """Add audio, and return the audio that is ready."""
        if rate != self._rate:
            self._rate, self._to_copy = rate, 0.0
        self._held = np.concatenate([self._held, samples])
        if rate == 1.0:
            return self.flush()
        heard: list[Samples] = []
        at = self._copy(0, heard)
        while len(self._held) - at >= 2 * self._longest:
            at = self._copy(self._splice(at, heard), heard)
        self._held = self._held[at:].copy()
        return np.concatenate(heard) if heard else np.empty(0, np.float32)

    def flush(self) -> Samples:
        """Return the held audio unchanged."""
        held, self._held = self._held, np.empty(0, np.float32)
        self._to_copy = 0.0
        return held

    def _copy(self, at: int, heard: list[Samples]) -> int:
        """Copy the available audio up to the next splice, and return the new position."""
        piece = self._held[at : at + max(0, int(self._to_copy))]
        heard.append(piece)
        self._to_copy -= len(piece)
        return at + len(piece)

    def _splice(self, at: int, heard: list[Samples]) -> int:
        """Leave out or repeat one lag, and return the new position."""
        lag, likeness = self._best_lag(at)
        # Copying this many samples for each lag left out or repeated results in the rate.
        due = lag / (self._rate - 1) if self._rate > 1 else lag * self._rate / (1 - self._rate)
        length = max(1, min(lag, round(due)))
        here, there = self._held[at : at + length], self._held[at + lag : at + lag + length]
        self._to_copy += due - length
        if self._rate > 1:
            heard.append(_cross_fade(here, there, likeness))
            return at + lag + length
        heard += [self._held[at : at + lag], _cross_fade(there, here, likeness)]
        return at + length

    def _best_lag(self, at: int) -> tuple[int, float]:
        """Return the distance of greatest self-similarity, and the similarity (at most 1)."""
        size = self._longest
        pattern = self._held[at : at + size]
        ahead = self._held[at + self._shortest : at + 2 * size]
        powers = np.concatenate([[0.0], np.cumsum(np.square(ahead, dtype=np.float64))])
        power = powers[size:] - powers[:-size]
        products = np.correlate(ahead, pattern)
        norm = np.sqrt(np.maximum(power, 0.0) * float(np.dot(pattern, pattern)))
        likeness = products / (norm + _NOTHING_ADDED)
        best = len(likeness) - 1 - int(np.argmax(likeness[::-1]))
        return self._shortest + best, float(likeness[best])


def _cross_fade(old: Samples, new: Samples, likeness: float) -> Samples:
    """Fade from one piece of audio to another at constant loudness, given their similarity."""
    rising = (np.arange(len(old), dtype=np.float32) + 0.5) / len(old)
    falling = 1.0 - rising
    shared = 2.0 * min(1.0, max(0.0, likeness))
    loudness = np.sqrt(rising**2 + falling**2 + shared * rising * falling)
    faded: Samples = ((old * falling + new * rising) / loudness).astype(np.float32)
    return faded
