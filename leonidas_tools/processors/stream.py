"""What a whole stream shares, handed from a later stage to the earlier ones it reads from.

Stages are nested generators: a stage that reads its input runs the one before it in its own
context, so a context variable set by the last stage is seen by all.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING

from leonidas_tools.calls import ToolSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.events import Sink

_session: ContextVar[ToolSession | None] = ContextVar("leonidas_tools_session", default=None)
_sinks: ContextVar[tuple[Sink, ...]] = ContextVar("leonidas_tools_sinks", default=())


def use_session(session: ToolSession) -> None:
    """Makes this the conversation of the stream that is read from here on."""
    _session.set(session)


def named_session() -> ToolSession | None:
    """The conversation of this stream, where anybody has named it."""
    return _session.get()


def session() -> ToolSession:
    """The conversation of this stream; a new one where nobody has named it."""
    return _session.get() or ToolSession()


@contextlib.contextmanager
def shared(*, session: ToolSession | None = None, sink: Sink | None = None) -> Iterator[None]:
    """Gives the streams whose reading begins inside this conversation, and this sink besides."""
    session_before, sinks_before = _session.get(), _sinks.get()
    if session is not None:
        _session.set(session)
    if sink is not None and sink not in sinks_before:
        _sinks.set((*sinks_before, sink))
    try:
        yield
    finally:  # by value: a generator may be closed in another context than it began in
        _session.set(session_before)
        _sinks.set(sinks_before)


def leave() -> None:
    """Forgets the stream, so that a tool that reads one of its own begins anew."""
    _session.set(None)
    _sinks.set(())


def sinks() -> tuple[Sink, ...]:
    """Who hears of the events of this stream."""
    return _sinks.get()
