"""The running calls of a server, to find the call that a question of the server belongs to."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from leonidas_tools.approvals.inquiry import CallPausedError, PausedCalls
from leonidas_tools.approvals.request import Decision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leonidas_tools.approvals.inquiry import Inquiry
    from leonidas_tools.calls.call import ToolResult, ToolSession
    from leonidas_tools.calls.context import ToolContext

_current: ContextVar[OngoingCall] = ContextVar("leonidas_tools_mcp_call")


def current_context() -> ToolContext | None:
    """Return the context of the call that a request to a server is sent for, if any."""
    call = _current.get(None)
    return None if call is None else call.context


class OnProgress(Protocol):
    """Awaited with each progress notification."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Receive a notification."""


class OngoingCall:
    """A running request to a server, on behalf of a call.

    If the server asks a question meanwhile, the call pauses: it ends with `CallPausedError`, and
    the request waits until another call continues it with the answer.
    """

    def __init__(
        self, context: ToolContext, send: Callable[[OnProgress], Awaitable[ToolResult]]
    ) -> None:
        self.on_gone: Callable[[], None] | None = None
        self.context = context
        self._asked: list[Inquiry] = []
        self._paused_at: Inquiry | None = None
        self._listeners: list[Callable[[], None]] = []
        self._news = asyncio.Event()
        # A separate task: it outlives a paused call, and to cancel the request at a server that
        # hangs may take seconds, which must not block the caller.
        self._task = asyncio.create_task(self._run(send))
        self._task.add_done_callback(self._done)

    @property
    def session(self) -> ToolSession:
        """Return the session of the call."""
        return self.context.session

    @property
    def is_paused(self) -> bool:
        """Return whether the call waits for an answer of the user."""
        return self._paused_at is not None

    @property
    def inquiry(self) -> Inquiry:
        """Return the question of a paused call."""
        assert self._paused_at is not None
        return self._paused_at

    def on_end(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the request has ended or was aborted."""
        self._listeners.append(listener)

    async def ask(self, inquiry: Inquiry) -> tuple[Decision, str]:
        """Ask the user, and return the decision; withdraw the question on cancellation."""
        self._asked.append(inquiry)
        self._news.set()
        try:
            await asyncio.wait({inquiry.answered})
        finally:
            self._asked.remove(inquiry)
            if not inquiry.answered.done():
                self._withdraw(inquiry)
        return inquiry.answered.result()

    async def resume(self, context: ToolContext) -> ToolResult:
        """Wait for the response of the server; cancel the request on cancellation.

        Raises:
            CallPausedError: The server asks a question first.
        """
        self.context = context
        while not self._task.done():
            unanswered = [each for each in self._asked if not each.answered.done()]
            if unanswered:
                self._paused_at = unanswered[0]
                raise CallPausedError(self)
            self._news.clear()
            try:
                await self._news.wait()
            except asyncio.CancelledError:
                self.abort()
                raise
        return await self._task

    def answer(self, decision: Decision, why_not: str) -> None:
        """Set the answer to the question of a paused call."""
        inquiry, self._paused_at, self.on_gone = self._paused_at, None, None
        if inquiry is not None and not inquiry.answered.done():
            inquiry.answered.set_result((decision, why_not))

    def withdraw_all(self) -> None:
        """Withdraw all questions; the request continues as if they were unanswered."""
        for inquiry in tuple(self._asked):
            if not inquiry.answered.done():
                inquiry.answered.set_result((Decision.deny(), "withdrawn"))
                self._withdraw(inquiry)

    def abort(self) -> None:
        """Cancel the request at the server."""
        self._paused_at = self.on_gone = None
        self._task.cancel()
        self._end()

    async def _run(self, send: Callable[[OnProgress], Awaitable[ToolResult]]) -> ToolResult:
        _current.set(self)
        try:
            return await send(self._on_progress)
        finally:
            self._news.set()  # here, one iteration of the event loop earlier than in a callback

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        fraction = progress / total if total else None
        self.context.progress(message, fraction=fraction, progress=progress)

    def _withdraw(self, inquiry: Inquiry) -> None:
        self._news.set()
        if self._paused_at is inquiry and self.on_gone is not None:
            on_gone, self.on_gone = self.on_gone, None
            on_gone()

    def _done(self, task: asyncio.Task[ToolResult]) -> None:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio logs no warning
        self._end()

    def _end(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
        self.withdraw_all()  # closes the questions, and releases a paused call
        self._news.set()


class OngoingCalls:
    """The running calls of one server."""

    def __init__(self) -> None:
        self._running: list[OngoingCall] = []

    def begin(
        self, context: ToolContext, send: Callable[[OnProgress], Awaitable[ToolResult]]
    ) -> OngoingCall:
        """Send a request, and record it while it runs."""
        call = OngoingCall(context, send)
        self._running.append(call)
        call.on_end(lambda: self._running.remove(call))
        return call

    def take_paused(self, context: ToolContext) -> OngoingCall | None:
        """Return the paused request that this call continues, if there is one."""
        paused = context.session.get(PausedCalls).take(context.call.number)
        return paused if isinstance(paused, OngoingCall) else None

    def close(self) -> None:
        """Withdraw all questions: the connection is lost, and no answer would arrive."""
        for call in tuple(self._running):
            call.withdraw_all()

    def find_asking(self) -> OngoingCall | None:
        """Return the call that the current question of the server belongs to.

        If the context identifies no call, return the latest call of the
        only session that uses the server. If several sessions use it, return `None`.
        """
        current = _current.get(None)
        if current is not None and current in self._running:
            return current
        if len({call.session for call in self._running}) != 1:
            return None
        running = [call for call in self._running if not call.is_paused]
        return (running or self._running)[-1]
