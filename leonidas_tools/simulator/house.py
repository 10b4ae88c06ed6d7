"""The state that all connections of one server share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.simulator.door import Door
    from leonidas_tools.simulator.exchange import Pace
    from leonidas_tools.simulator.quirks import Quirks
    from leonidas_tools.simulator.record import Record
    from leonidas_tools.simulator.resumption import SessionBook
    from leonidas_tools.simulator.scenario import Play


@dataclass(frozen=True, kw_only=True, slots=True)
class Conduct:
    """The treatment of connections.

    Args:
        strict: Close the connection at a violation.
        pace: How fast to play.
        quirks: How this server behaves.
    """

    strict: bool
    pace: Pace
    quirks: Quirks


class ScenarioOverError(Exception):
    """Raised when there is nothing to play on a connection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class House:
    """The state that all connections of one server share.

    Args:
        conduct: How connections are treated.
        record: All that was seen.
        book: The sessions and their handles.
        door: Where the server listens, and whom it turns away.
        next_play: What to play on the next connection; raises `ScenarioOverError` at the end.
    """

    conduct: Conduct
    record: Record
    book: SessionBook
    door: Door
    next_play: Callable[[], Play]
