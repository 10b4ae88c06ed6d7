"""A histogram of durations in constant memory, with percentiles within 4 % of the true ones."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from math import ceil, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_PER_DECADE = 30
"""Thirty buckets per decade are each 8 % wide, so that their middle is off by 3.9 % at most."""
_MIN_SECONDS = 1e-6
_DECADES = 10
_BELOW = 6 * _PER_DECADE
_LAST = _DECADES * _PER_DECADE + 1

_GROWTH = 10 ** (1 / _PER_DECADE)
_MIDDLE = 2 / (_GROWTH + 1)
"""Factor from the upper edge to the point with the same relative error at both edges."""
_EDGES = (
    *(decade * _PER_DECADE + step for decade in range(3, 9) for step in (0, 9, 21)),
    9 * _PER_DECADE,
)


def upper_edge(bucket: int) -> float:
    """Return the upper edge of a bucket, in seconds."""
    return 10 ** ((bucket - _BELOW) / _PER_DECADE)


class DurationHistogram:
    """Counts durations in logarithmic buckets from 1 µs to 10,000 s: a flat list of ints.

    Percentiles are by nearest rank and within 4 % of the true duration at that rank; shorter
    durations count as 1 µs, and the longest is known exactly.

    Example:
        >>> durations = DurationHistogram()
        >>> for milliseconds in range(1, 101):
        ...     durations.add(milliseconds / 1000)
        >>> durations.count, durations.max_seconds, round(durations.percentile(95), 2)
        (100, 0.1, 0.1)
    """

    __slots__ = ("buckets", "max_seconds", "total_seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (_LAST + 1)
        self.total_seconds = 0.0
        self.max_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        bucket = 0
        if seconds > _MIN_SECONDS:
            bucket = ceil(log10(seconds) * _PER_DECADE) + _BELOW
            if bucket > _LAST:  # noqa: PLR1730 - min() costs three times as much
                bucket = _LAST
        self.buckets[bucket] += 1
        self.total_seconds += seconds
        if seconds > self.max_seconds:  # noqa: PLR1730 - so does max()
            self.max_seconds = seconds

    @classmethod
    def merged(cls, histograms: Iterable[DurationHistogram]) -> DurationHistogram:
        """Return the sum of the histograms."""
        merged = cls()
        parts = list(histograms)
        if parts:
            merged.buckets = [
                sum(column) for column in zip(*(p.buckets for p in parts), strict=True)
            ]
            merged.total_seconds = sum(part.total_seconds for part in parts)
            merged.max_seconds = max(part.max_seconds for part in parts)
        return merged

    @property
    def count(self) -> int:
        """Return the number of durations."""
        return sum(self.buckets)

    @property
    def mean_seconds(self) -> float | None:
        """Return the mean duration; `None` without durations."""
        count = self.count
        return self.total_seconds / count if count else None

    def percentile(self, percent: int) -> float | None:
        """Return a percentile of the durations in seconds; `None` without durations.

        Args:
            percent: From 1 to 100.
        """
        buckets = self.buckets.copy()  # another thread may be adding
        rank = -(-sum(buckets) * percent // 100)
        if rank == 0:
            return None
        bucket = bisect_left(list(accumulate(buckets)), rank)
        estimate = self.max_seconds if bucket == _LAST else upper_edge(bucket) * _MIDDLE
        return min(estimate, self.max_seconds)

    def cumulative(self) -> list[tuple[float, int]]:
        """Return the number of durations up to each of some edges; the last edge is infinite.

        The edges are close to 1, 2 and 5 of each decade from 1 ms to 1,000 s.
        """
        counts = list(accumulate(self.buckets.copy()))
        return [*((upper_edge(edge), counts[edge]) for edge in _EDGES), (math.inf, counts[-1])]

    def bars(self, most: int) -> list[tuple[float, int]]:
        """Return the counts between the shortest and the longest duration, in few equal steps.

        Args:
            most: The maximum number of steps.

        Returns:
            The upper edge of each step in seconds, and the durations in it.
        """
        buckets = self.buckets.copy()
        used = [index for index, count in enumerate(buckets) if count]
        if not used:
            return []
        width = -(-(used[-1] + 1 - used[0]) // most)
        starts = range(used[0], used[-1] + 1, width)
        return [
            (upper_edge(min(start + width, _LAST + 1) - 1), sum(buckets[start : start + width]))
            for start in starts
        ]

    def _repr_svg_(self) -> str:
        from leonidas_tools.monitoring.charts import durations  # only notebooks draw

        return durations(self).svg
