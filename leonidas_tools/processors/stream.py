"""State that a whole stream shares, passed from a later stage to earlier ones.

Stages are nested generators: a stage that reads its input runs the previous stage in its own
context. So all stages share a context variable that the last stage sets.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING

from leonidas_tools.calls.call import ToolSession
from leonidas_tools.processors.stage import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterator

    from genai_processors import processor
    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls.events import Sink


class InSession(Stage):
    """Runs tools in one conversation."""

    def __init__(self, tools: processor.Processor, session: ToolSession) -> None:
        self._tools = tools
        self._session = session

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Run the tools in the session."""
        with shared(session=self._session):
            async for part in self._tools(content):
                yield part


_session: ContextVar[ToolSession | None] = ContextVar("leonidas_tools_session", default=None)
_tools: ContextVar[object | None] = ContextVar("leonidas_tools_tools", default=None)
_listeners: ContextVar[tuple[Callable[[ToolSession], None], ...]] = ContextVar(
    "leonidas_tools_session_listeners", default=()
)
_sinks: ContextVar[tuple[Sink, ...]] = ContextVar("leonidas_tools_sinks", default=())


def on_session(listener: Callable[[ToolSession], None]) -> None:
    """Call `listener` when an earlier stage of the stream that is read from here sets a session.

    The stream calls `listener` before the first part of that session arrives.
    """
    _listeners.set((*_listeners.get(), listener))


def use_session(session: ToolSession) -> None:
    """Set the conversation of the stream that is read from here on."""
    _session.set(session)


def named_session() -> ToolSession | None:
    """Return the conversation of this stream, if one was set."""
    return _session.get()


def tools() -> object | None:
    """Return the processor that answers the calls of this stream, if a live session set one."""
    return _tools.get()


def session() -> ToolSession:
    """Return the conversation of this stream, or a new one if none was set."""
    return _session.get() or ToolSession()


@contextlib.contextmanager
def shared(
    *, session: ToolSession | None = None, sink: Sink | None = None, tools: object | None = None
) -> Iterator[None]:
    """Set the conversation, the tools and a sink for streams whose reading begins inside."""
    session_before, sinks_before, tools_before = _session.get(), _sinks.get(), _tools.get()
    if tools is not None:
        _tools.set(tools)
    if session is not None:
        _session.set(session)
        for listener in _listeners.get():
            listener(session)
    if sink is not None and sink not in sinks_before:
        _sinks.set((*sinks_before, sink))
    try:
        yield
    finally:  # by value: a generator may be closed in another context than it began in
        _session.set(session_before)
        _sinks.set(sinks_before)
        _tools.set(tools_before)


def leave() -> None:
    """Reset the shared state, so that a tool can read a new stream of its own."""
    _session.set(None)
    _tools.set(None)
    _sinks.set(())
    _listeners.set(())


def sinks() -> tuple[Sink, ...]:
    """Return the sinks of this stream's events."""
    return _sinks.get()
