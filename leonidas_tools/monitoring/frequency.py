"""Sessions that make many calls: said once a minute each, and counted."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from leonidas_tools.calls.events import ToolEvent

_log = visible_logger(__name__)

_MINUTE_SECONDS = 60.0
_MOST_SESSIONS = 1000


class Frequency:
    """Counts the calls of each session by the minute.

    Args:
        most_per_minute: How many are ordinary; `None` for any number.
    """

    __slots__ = ("_minutes", "busy_minutes", "most_per_minute")

    def __init__(self, most_per_minute: int | None = 30) -> None:
        self.most_per_minute = most_per_minute
        self.busy_minutes = 0
        """How many minutes of how many sessions had more."""
        self._minutes: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __call__(self, event: ToolEvent) -> None:
        """Counts a call that ends."""
        most = self.most_per_minute
        if event.result is None or most is None:
            return
        session, now = event.call.session.id, event.at // _MINUTE_SECONDS
        minute, count = self._minutes.pop(session, (now, 0))
        count = count + 1 if minute == now else 1
        self._minutes[session] = (now, count)
        if len(self._minutes) > _MOST_SESSIONS:
            self._minutes.popitem(last=False)
        if count == most + 1:
            self.busy_minutes += 1
            _log.warning("The session %r makes more than %d calls a minute", session, most)
