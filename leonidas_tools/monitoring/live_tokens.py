"""The tokens of live sessions: by model for metrics, and by session and user for limits."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.calls.call import ToolSession

_MAX_SUMS = 100_000
_DAY_SECONDS = 86_400


class Spent(NamedTuple):
    """Tokens used, and the cost of those that have a price."""

    tokens: int = 0
    cost: float = 0.0


class SumKey(NamedTuple):
    """The name of a limit, and what it applies to."""

    limit: str
    user: str | None
    of: str | int  # the session, or the day (UTC)


def sum_keys(session: ToolSession, user: str | None, at: float) -> tuple[SumKey, SumKey]:
    """Return the keys of the sums that a session counts for at a time."""
    day = int(at // _DAY_SECONDS)
    return SumKey("session", user, session.id), SumKey("user_day", user, day)


class LiveTokens:
    """Sums the tokens of the live sessions of this process."""

    def __init__(self) -> None:
        self.by_kind: dict[tuple[str, str, str], int] = {}
        """The number of tokens by model, direction and modality."""
        self._sums: OrderedDict[SumKey, Spent] = OrderedDict()

    def count(self, model: str, tokens: Mapping[str, Mapping[str, int]]) -> None:
        """Count tokens by direction and modality."""
        for direction, counts in tokens.items():
            for modality, count in counts.items():
                key = (model, direction, modality)
                self.by_kind[key] = self.by_kind.get(key, 0) + count

    def spent(self, key: SumKey) -> Spent:
        """Return a sum."""
        return self._sums.get(key, Spent())

    def spend(self, key: SumKey, tokens: int, cost: float) -> None:
        """Add to a sum; of very many sums, the one used least recently is lost."""
        before = self._sums.pop(key, Spent())
        self._sums[key] = Spent(before.tokens + tokens, before.cost + cost)
        if len(self._sums) > _MAX_SUMS:
            self._sums.popitem(last=False)

    def restore(self, key: SumKey, tokens: int, cost: float) -> None:
        """Raise a sum to that of the store, which other processes write, too."""
        here = self.spent(key)
        self.spend(key, max(tokens - here.tokens, 0), max(cost - here.cost, 0.0))
