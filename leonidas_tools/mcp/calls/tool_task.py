"""Calls that a server runs as tasks: begun with one request, and asked after until they end.

The protocol of 2025-11-25 has them, and a tool may want to be called in no other way. The client
library knows their messages and sends none of them, so it is done here, by its general request.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import FiniteFloat, ValidationError

from leonidas_tools.mcp.calls import errors
from leonidas_tools.mcp.features.ongoing_calls import runs_as
from leonidas_tools.mcp.transport.http_client import NOT_SENT, SESSION_GONE
from leonidas_tools.mcp.transport.unreadable import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcp.client.client import Client

    from leonidas_tools.mcp.calls.server_call import ServerCall
    from leonidas_tools.mcp.features.ongoing_calls import OnProgress

_POLL_SECONDS = 0.5
_LEAST_POLL_SECONDS = 0.05
_MOST_POLL_SECONDS = 10.0
"""Servers may wish to be asked later: then the call would be out of time before it is known."""
_CANCEL_SECONDS = 5.0
"""How long a server may take to begin or end a task that is not wanted any more."""
_UNANSWERED = frozenset({mcp_types.CONNECTION_CLOSED, NOT_SENT, SESSION_GONE, *UNREADABLE})
"""The codes of errors that are no answer of the server."""
_ENDED = frozenset({"completed", "failed", "cancelled"})


def called_as_tasks(
    tools: Iterable[mcp_types.Tool], capabilities: mcp_types.ServerCapabilities
) -> frozenset[str]:
    """Return the names of the tools that can be called only as tasks."""
    requests = None if capabilities.tasks is None else capabilities.tasks.requests
    if requests is None or requests.tools is None or requests.tools.call is None:
        return frozenset()
    return frozenset(
        tool.name
        for tool in tools
        if tool.execution is not None and tool.execution.task_support == "required"
    )


class TaskState(mcp_types.Result):
    """The state of a task, of all that a server reports."""

    task_id: str
    status: mcp_types.TaskStatus
    status_message: str | None = None
    poll_interval: FiniteFloat | None = None


class _Begun(mcp_types.CallToolResult):
    """The answer to a call: the result, or the task that will have it."""

    task: TaskState | None = None


class TaskReports:
    """Delivers reports of servers about tasks to the waiting calls.

    A report names the request that has begun the task, which has long been answered by then: the
    client library listens no more.
    """

    def __init__(self) -> None:
        self._listeners: dict[str | int, OnProgress] = {}

    @contextmanager
    def to(self, token: str, listener: OnProgress) -> Iterator[None]:
        """Within it somebody listens."""
        self._listeners[token] = listener
        try:
            yield
        finally:
            del self._listeners[token]

    async def heard(self, message: object) -> None:
        """Pass on what is such a report."""
        if not isinstance(message, mcp_types.ProgressNotification):
            return
        told = message.params
        listener = self._listeners.get(told.progress_token)
        if listener is not None:
            await listener(told.progress, told.total, told.message)


class ToolTask:
    """One call that its server runs as a task, over one connection or several.

    Args:
        server: The server's name.
        call: What is called.
        redact: Takes secrets out of what the server says.
    """

    def __init__(self, server: str, call: ServerCall, redact: Callable[[str], str]) -> None:
        self.id: str | None = None
        """What the server calls it, once it has begun: it then runs whether we listen or not."""
        self._server = server
        self._call = call
        self._redact = redact
        self._token = f"task-{secrets.token_hex(8)}"
        self._said: str | None = None

    async def run(
        self, client: Client, reports: TaskReports, on_progress: OnProgress
    ) -> mcp_types.CallToolResult:
        """Begin it, unless it has begun, and waits for its end; being cancelled cancels it.

        Raises:
            MCPError: The server refuses, or the task has failed.
            ToolError: The server has cancelled it, or does not know it any more.
            ValidationError: What the server says of it is garbage.
        """
        with reports.to(self._token, on_progress):
            try:
                result = await self._result(client, on_progress)
            except (asyncio.CancelledError, ValidationError):
                await self._cancel(client)
                raise
        if not result.is_error:
            await client.session.validate_tool_result(self._call.tool, result)
        return result

    async def _result(self, client: Client, on_progress: OnProgress) -> mcp_types.CallToolResult:
        state: TaskState | None = None
        if self.id is None:
            begun = await self._begin(client)
            if begun.task is None:  # some answer at once
                return begun
            state = begun.task
        asking = _Asking(client, str(self.id))
        runs_as(asking.task)
        try:
            while True:
                state = state or await self._state(client)
                await self._tell(state, on_progress)
                if state.status in _ENDED:
                    return await self._ended(asking, state)
                result = await asking.wait(state)
                if result is not None:
                    return result
                state = None
        finally:
            asking.end()

    async def _begin(self, client: Client) -> _Begun:
        """Has the server begin it; it is known whether it has begun, though the caller has gone."""
        params = mcp_types.CallToolRequestParams(
            name=self._call.tool,
            arguments=dict(self._call.arguments),
            task=mcp_types.TaskMetadata(),
            _meta={"progress_token": self._token},
        )
        sending = asyncio.create_task(
            client.session.send_request(mcp_types.CallToolRequest(params=params), _Begun)
        )
        try:
            begun = await asyncio.shield(sending)
        except asyncio.CancelledError:
            with contextlib.suppress(MCPError, ValidationError, TimeoutError):
                task = (await asyncio.wait_for(sending, _CANCEL_SECONDS)).task
                self.id = None if task is None else task.task_id
            raise
        if begun.task is not None:
            self.id = begun.task.task_id
        return begun

    async def _state(self, client: Client) -> TaskState:
        params = mcp_types.GetTaskRequestParams(task_id=str(self.id))
        try:
            return await client.session.send_request(
                mcp_types.GetTaskRequest(params=params), TaskState
            )
        except MCPError as error:
            if error.code in _UNANSWERED:
                raise
            raise errors.task_lost(
                self._server, self._call.tool, self._redact(error.message), once=self._call.once
            ) from error

    async def _ended(self, asking: _Asking, state: TaskState) -> mcp_types.CallToolResult:
        if state.status == "cancelled":
            why = self._redact(state.status_message or "")
            raise errors.task_cancelled(self._server, self._call.tool, why, once=self._call.once)
        try:
            result = await asking.result()
        except MCPError as error:
            said = state.status_message if state.status == "failed" else None
            if said is None or error.code in _UNANSWERED:
                raise
            raise MCPError(code=error.code, message=said) from error
        failed = state.status == "failed"
        return result.model_copy(update={"is_error": True}) if failed else result

    async def _tell(self, state: TaskState, on_progress: OnProgress) -> None:
        said, self._said = self._said, state.status_message
        if state.status not in _ENDED and state.status_message not in (None, said):
            await on_progress(None, None, state.status_message)

    async def _cancel(self, client: Client) -> None:
        """Has the server end it, as far as it can."""
        tasks = client.server_capabilities.tasks
        if self.id is None or tasks is None or tasks.cancel is None:
            return
        params = mcp_types.CancelTaskRequestParams(task_id=self.id)
        with contextlib.suppress(MCPError, ValidationError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await client.session.send_request(
                    mcp_types.CancelTaskRequest(params=params), mcp_types.EmptyResult
                )


class _Asking:
    """Asks for the result of a task.

    A server waits for the task's end before it answers. Meanwhile it asks whatever the task wants
    to know, so its result is asked for early where it wants to know something.
    """

    def __init__(self, client: Client, task: str) -> None:
        self.task = task
        self._client = client
        self._request: asyncio.Task[mcp_types.CallToolResult] | None = None

    async def wait(self, state: TaskState) -> mcp_types.CallToolResult | None:
        """Wait as long as the server wishes to be left alone; gives the result if it has come."""
        wished = _POLL_SECONDS if state.poll_interval is None else state.poll_interval / 1000
        seconds = min(max(wished, _LEAST_POLL_SECONDS), _MOST_POLL_SECONDS)
        if state.status == "input_required":
            self._begin()
        if self._request is None:
            await asyncio.sleep(seconds)
            return None
        await asyncio.wait({self._request}, timeout=seconds)
        if not self._request.done():
            return None
        request, self._request = self._request, None
        if request.exception() is None:
            return request.result()
        await asyncio.sleep(seconds)  # some do not wait for the end, but refuse at once
        return None

    async def result(self) -> mcp_types.CallToolResult:
        """Return the result of a task that has ended."""
        return await self._begin()

    def end(self) -> None:
        """Ask no more."""
        if self._request is not None:
            self._request.cancel()

    def _begin(self) -> asyncio.Task[mcp_types.CallToolResult]:
        if self._request is None:
            params = mcp_types.GetTaskPayloadRequestParams(task_id=self.task)
            request = mcp_types.GetTaskPayloadRequest(params=params)
            self._request = asyncio.create_task(
                self._client.session.send_request(request, mcp_types.CallToolResult)
            )
            self._request.add_done_callback(_taken)  # what is asked early may be wanted no more
        return self._request


def _taken(request: asyncio.Task[mcp_types.CallToolResult]) -> None:
    if not request.cancelled():
        request.exception()
