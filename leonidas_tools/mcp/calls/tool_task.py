"""Calls that a server runs as tasks: started with one request, then polled until they end.

The protocol 2025-11-25 has tasks, and a tool may require them. The client library has the types of
their messages but does not send them, so this module sends them as general requests.
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
from leonidas_tools.mcp.transport.http_client import SESSION_GONE, UNSENT
from leonidas_tools.mcp.transport.limits import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcp.client.client import Client

    from leonidas_tools.mcp.calls.server_call import ServerCall
    from leonidas_tools.mcp.features.ongoing_calls import OnProgress

_POLL_SECONDS = 0.5
_MIN_POLL_SECONDS = 0.05
_MAX_POLL_SECONDS = 10.0
"""Limit of a server's poll interval: with a longer one, the call could time out unnoticed."""
_CANCEL_SECONDS = 5.0
"""Seconds to wait for a server to start or end a task whose caller was cancelled."""
_UNANSWERED = frozenset({mcp_types.CONNECTION_CLOSED, SESSION_GONE, *UNSENT, *UNREADABLE})
"""The codes of errors made by the client, not by the server."""
_ENDED = frozenset({"completed", "failed", "cancelled"})


def find_task_tools(
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
    """The used fields of a task's state."""

    task_id: str
    status: mcp_types.TaskStatus
    status_message: str | None = None
    poll_interval: FiniteFloat | None = None


class _CallResponse(mcp_types.CallToolResult):
    """The response to a call: the result, or the task that will return it."""

    task: TaskState | None = None


class TaskReports:
    """Passes progress reports of tasks to the calls that wait for the tasks.

    A report names the request that started the task. The client library drops such a report,
    because that request is already answered.
    """

    def __init__(self) -> None:
        self._listeners: dict[str | int, OnProgress] = {}

    @contextmanager
    def to(self, token: str, listener: OnProgress) -> Iterator[None]:
        """Pass the reports with this token to the listener, inside `with`."""
        self._listeners[token] = listener
        try:
            yield
        finally:
            del self._listeners[token]

    async def heard(self, message: object) -> None:
        """Pass a message to its listener, if it is the progress report of a task."""
        if not isinstance(message, mcp_types.ProgressNotification):
            return
        report = message.params
        listener = self._listeners.get(report.progress_token)
        if listener is not None:
            await listener(report.progress, report.total, report.message)


class ToolTask:
    """One call that its server runs as a task, over one connection or several."""

    def __init__(self, server: str, call: ServerCall, redact: Callable[[str], str]) -> None:
        self.id: str | None = None
        """Id of the task at the server, once it has started; it then outlives the connection."""
        self._server = server
        self._call = call
        self._redact = redact
        self._token = f"task-{secrets.token_hex(8)}"
        self._said: str | None = None

    async def run(
        self, client: Client, reports: TaskReports, on_progress: OnProgress
    ) -> mcp_types.CallToolResult:
        """Start the task if needed, and return its result; cancellation cancels the task.

        Raises:
            MCPError: The server refuses the request, or the task has failed.
            ToolError: The server has cancelled the task, or the task no longer exists there.
            ValidationError: The server's answer is malformed.
        """
        with reports.to(self._token, on_progress):
            try:
                return await self._result(client, on_progress)
            except (asyncio.CancelledError, ValidationError):
                await self._cancel(client)
                raise

    async def _result(self, client: Client, on_progress: OnProgress) -> mcp_types.CallToolResult:
        state: TaskState | None = None
        if self.id is None:
            begun = await self._begin(client)
            if begun.task is None:  # some servers return the result at once
                return begun
            state = begun.task
        request = _ResultRequest(client, str(self.id))
        runs_as(request.task)
        try:
            while True:
                state = state or await self._state(client)
                await self._report_progress(state, on_progress)
                if state.status in _ENDED:
                    return await self._final_result(request, state)
                result = await request.wait(state)
                if result is not None:
                    return result
                state = None
        finally:
            request.end()

    async def _begin(self, client: Client) -> _CallResponse:
        """Start the task; if the caller is cancelled meanwhile, record the id of a started task."""
        params = mcp_types.CallToolRequestParams(
            name=self._call.tool,
            arguments=dict(self._call.arguments),
            task=mcp_types.TaskMetadata(),
            _meta={"progress_token": self._token},
        )
        sending = asyncio.create_task(
            client.session.send_request(mcp_types.CallToolRequest(params=params), _CallResponse)
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

    async def _final_result(
        self, request: _ResultRequest, state: TaskState
    ) -> mcp_types.CallToolResult:
        if state.status == "cancelled":
            why = self._redact(state.status_message or "")
            raise errors.task_cancelled(self._server, self._call.tool, why, once=self._call.once)
        try:
            result = await request.result()
        except MCPError as error:
            said = state.status_message if state.status == "failed" else None
            if said is None or error.code in _UNANSWERED:
                raise
            raise MCPError(code=error.code, message=said) from error
        failed = state.status == "failed"
        return result.model_copy(update={"is_error": True}) if failed else result

    async def _report_progress(self, state: TaskState, on_progress: OnProgress) -> None:
        said, self._said = self._said, state.status_message
        if state.status not in _ENDED and state.status_message not in (None, said):
            await on_progress(None, None, state.status_message)

    async def _cancel(self, client: Client) -> None:
        """Cancel the task, if the server supports this."""
        tasks = client.server_capabilities.tasks
        if self.id is None or tasks is None or tasks.cancel is None:
            return
        params = mcp_types.CancelTaskRequestParams(task_id=self.id)
        with contextlib.suppress(MCPError, ValidationError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await client.session.send_request(
                    mcp_types.CancelTaskRequest(params=params), mcp_types.EmptyResult
                )


class _ResultRequest:
    """A request for the result of a task.

    A server responds when the task has ended. Until then, it sends the task's questions over this
    request. So this request is sent early if the task requires input.
    """

    def __init__(self, client: Client, task: str) -> None:
        self.task = task
        self._client = client
        self._request: asyncio.Task[mcp_types.CallToolResult] | None = None

    async def wait(self, state: TaskState) -> mcp_types.CallToolResult | None:
        """Wait for the server's poll interval; return the result if it has arrived."""
        interval = _POLL_SECONDS if state.poll_interval is None else state.poll_interval / 1000
        seconds = min(max(interval, _MIN_POLL_SECONDS), _MAX_POLL_SECONDS)
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
        await asyncio.sleep(seconds)  # some servers refuse at once instead of waiting for the end
        return None

    async def result(self) -> mcp_types.CallToolResult:
        """Return the result of an ended task; repeat an early request that was refused."""
        if self._request is not None:
            await asyncio.wait({self._request})
            if self._request.exception() is None:
                return self._request.result()
            self._request = None
        return await self._begin()

    def end(self) -> None:
        """Cancel the request."""
        if self._request is not None:
            self._request.cancel()

    def _begin(self) -> asyncio.Task[mcp_types.CallToolResult]:
        if self._request is None:
            params = mcp_types.GetTaskPayloadRequestParams(task_id=self.task)
            request = mcp_types.GetTaskPayloadRequest(params=params)
            self._request = asyncio.create_task(
                self._client.session.send_request(request, mcp_types.CallToolResult)
            )
            self._request.add_done_callback(
                _retrieve_exception
            )  # an early request may have no reader
        return self._request


def _retrieve_exception(request: asyncio.Task[mcp_types.CallToolResult]) -> None:
    if not request.cancelled():
        request.exception()
