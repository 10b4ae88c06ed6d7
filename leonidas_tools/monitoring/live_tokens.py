"""The tokens of live sessions: by model for metrics, and by session and user for limits."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.calls.call import ToolSession

_MAX_SUMS = 100_000
_DAY_SECONDS = 86_400

SumKey: TypeAlias = tuple[str, str | None, str | int]
"""The name of a limit, a user, and a session or a day."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent: tokens, and the cost of those that have a price."""

    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(tokens=self.tokens + other.tokens, cost=self.cost + other.cost)


def sum_keys(session: ToolSession, user: str | None, at: float) -> dict[str, SumKey]:
    """Return the key of each sum that a session counts for at a time, by the name of its limit."""
    return {
        "session": ("session", user, session.id),
        "user_day": ("user_day", user, int(at // _DAY_SECONDS)),
    }


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

    def spend(self, key: SumKey, more: Spent) -> Spent:
        """Add to a sum, and return it; of very many sums, the one used least recently is lost."""
        self._sums[key] = total = self._sums.pop(key, Spent()) + more
        if len(self._sums) > _MAX_SUMS:
            self._sums.popitem(last=False)
        return total

    def restore(self, key: SumKey, stored: Spent) -> None:
        """Raise a sum to that of the store, which other processes write, too."""
        here = self.spent(key)
        lacking = max(stored.tokens - here.tokens, 0), max(stored.cost - here.cost, 0.0)
        self.spend(key, Spent(tokens=lacking[0], cost=lacking[1]))
