"""Refuse resumptions that may repeat a call, if no store records the calls that have run."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING

from leonidas_tools.calls.events import EventKind

if TYPE_CHECKING:
    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.gateway.tokens import Resumed
    from leonidas_tools.processors.advanced import AdvancedToolProcessor

_MAX_SESSIONS = 65_536
_START, _REFUSED = EventKind.START, EventKind.ERROR


class ResumptionGuard:
    """Records when each session's calls of effect `once` ended, and checks resumptions.

    Args:
        tools: Runs the calls.
    """

    def __init__(self, tools: AdvancedToolProcessor) -> None:
        self.process = secrets.token_hex(8)
        """Random id of this process; the calls of other processes, or earlier ones, are unknown."""
        self._executor = tools.executor
        self._open: dict[tuple[str | None, str], set[str]] = {}
        self._ended: OrderedDict[tuple[str | None, str], float] = OrderedDict()
        self._forgotten = 0.0
        """Time at which the last call of a dropped session ended, in seconds since the epoch."""

    def __call__(self, event: ToolEvent) -> None:
        """Record the start or the end of a call."""
        call, key = event.call, (event.call.session.user, event.call.session.id)
        if event.kind is _START:
            if call.tool is None or call.settings is None:
                return
            if self._executor.may_be_once(call.tool, call.settings):
                self._open.setdefault(key, set()).add(call.trace_id)
        elif event.ends_call and call.trace_id in self._open.get(key, ()):
            self._open[key].discard(call.trace_id)
            if not self._open[key]:
                del self._open[key]
            if event.kind is not _REFUSED:
                self._ended[key] = event.at
                self._ended.move_to_end(key)
                if len(self._ended) > _MAX_SESSIONS:
                    _, ended = self._ended.popitem(last=False)
                    self._forgotten = max(self._forgotten, ended)

    def may_repeat_call(self, user: str, known: Resumed) -> bool:
        """Return whether the resumed model may lack a call that is running or has ended."""
        key = (user, known.session)
        is_from_here = known.process == self.process
        ended = self._ended.get(key, self._forgotten)
        return not is_from_here or key in self._open or ended > known.at
