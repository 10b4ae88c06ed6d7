"""What a whole stream shares, handed from a later stage to the earlier ones it reads from.

Stages are nested generators: a stage that reads its input runs the one before it in its own
context, so a context variable set by the last stage is seen by all.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from leonidas_tools.calls import ToolSession

if TYPE_CHECKING:
    from leonidas_tools.events import Sink

_session: ContextVar[ToolSession | None] = ContextVar("leonidas_tools_session", default=None)
_sinks: ContextVar[tuple[Sink, ...]] = ContextVar("leonidas_tools_sinks", default=())


def use_session(session: ToolSession) -> None:
    """Makes this the conversation of the stream that is read from here on."""
    _session.set(session)


def session() -> ToolSession:
    """The conversation of this stream; a new one where nobody has named it."""
    return _session.get() or ToolSession()


def add_sink(sink: Sink) -> None:
    """Lets a sink hear of the events of the stream that is read from here on."""
    if sink not in _sinks.get():
        _sinks.set((*_sinks.get(), sink))


def sinks() -> tuple[Sink, ...]:
    """Who hears of the events of this stream."""
    return _sinks.get()
