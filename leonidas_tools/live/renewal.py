"""Decide whether and by when a connection is replaced."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_PATIENCE_SECONDS = 30.0
_MARGIN_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewal:
    """The reasons for another connection.

    Args:
        since: When one was first wished for, for other tools or another voice; 0 where it is not.
        deadline: By when the server ends this one, as far as it has said so.

    Example:
        >>> Renewal().wanted, Renewal().wished(3.0).wanted, Renewal().announced_for(9.0).deadline
        (False, True, 8.5)
    """

    since: float = 0.0
    deadline: float | None = None

    def wished(self, now: float) -> Renewal:
        """With the wish for another connection."""
        return replace(self, since=self.since or now)

    def unwished(self) -> Renewal:
        """Return this without the wish; an announced end comes anyway."""
        return replace(self, since=0.0)

    def announced_for(self, end: float) -> Renewal:
        """With the announcement that the server ends this one."""
        return replace(self, deadline=end - _MARGIN_SECONDS)

    @property
    def wanted(self) -> bool:
        """Return whether another connection is wanted at all."""
        return self.since > 0 or self.deadline is not None

    def is_due(self, now: float) -> bool:
        """Return whether it cannot wait for a quiet moment any more."""
        return self.deadline is not None and now >= self.deadline

    def is_impatient(self, now: float) -> bool:
        """Return whether calls that the model does not wait for hold it up no longer."""
        return now >= self._impatient_at

    def next_time(self, now: float) -> float | None:
        """Return when time alone changes the answer to one of these."""
        times = [t for t in (self.deadline, self._impatient_at) if t is not None and t > now]
        soonest = min(times, default=math.inf)
        return None if soonest == math.inf else soonest

    @property
    def _impatient_at(self) -> float:
        return self.since + _PATIENCE_SECONDS if self.since else math.inf
