"""How long to wait before trying again."""

from __future__ import annotations

import random

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 30.0


def delay_seconds(attempt: int) -> float:
    """A wait that doubles with each attempt, is bounded, and never in step with others.

    Args:
        attempt: How often it has been tried, counted from 0.
    """
    longest: float = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(attempt, 10))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
