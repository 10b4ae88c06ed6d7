"""The tools of a processor as an MCP server, for both generations of the protocol."""

from __future__ import annotations

import asyncio
import importlib.metadata
import secrets
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

import mcp_types
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from leonidas_tools.approvals.request import ApprovalRequest, Decision
from leonidas_tools.calls.call import ToolCall
from leonidas_tools.mcp_server.approval_form import ANSWER, can_be_asked, decision_of, elicitation
from leonidas_tools.mcp_server.call import ServedCall, to_answer
from leonidas_tools.mcp_server.offered_tools import OfferedTools
from leonidas_tools.mcp_server.sessions import Context, Sessions, caller_of
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.similar import closest
from leonidas_tools.results.texts import AS_IT_IS, join, say
from leonidas_tools.runtime.runtime import ToolRuntime

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.processors.advanced import AdvancedToolProcessor

logger = visible_logger(__name__)

_READY_SECONDS = 10.0
_KEPT_SECONDS = 60.0
_MAX_WAITING = 256
_MAX_NAME_CHARACTERS = 100


class ToolServer:
    """Serves the tools of a processor to MCP clients, inside `async with`.

    `patterns` are names, or patterns such as `get_*`. `max_callers` is the number of programs over
    HTTP whose calls are counted in the newer protocol. `single_client` is whether there is only one
    client, as over a pipe.
    """

    def __init__(
        self,
        tools: ToolRuntime | AdvancedToolProcessor,
        patterns: Sequence[str] = (),
        max_callers: int = 256,
        *,
        single_client: bool = False,
    ) -> None:
        self._tools = tools if isinstance(tools, ToolRuntime) else tools.runtime
        self._offered = OfferedTools(self._tools, patterns)
        self._sessions = Sessions(
            self._ask, self._notify_changed, max_callers, single_client=single_client
        )
        self._calls: dict[str, ServedCall] = {}
        self._waiting: dict[str, tuple[ServedCall, ApprovalRequest]] = {}
        self._running: set[str] = set()
        self._idle = asyncio.Event()
        self._bus = InMemorySubscriptionBus()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()
        self._ready = False
        self.mcp: Server[Any] = _ProtocolServer(
            "leonidas-tools",
            version=_version(),
            title="Leonidas Tools",
            get_tool_input_schema=self._offered.schema,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self._bus),
        )

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._tools)
            stack.push_async_callback(self._stop)
            stack.callback(self._tools.monitor.subscribe(self._on_event))
            stack.callback(self._offered.on_change(self._notify_changed))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def drain(self, seconds: float) -> None:
        """Cancel calls that wait for another request; wait for the others, at most `seconds`."""
        for state in tuple(self._waiting):
            self._forget(state)  # no client can send the answer any more
        try:
            async with asyncio.timeout(seconds):
                while self._running:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            logger.warning("%d calls were still running", len(self._running))

    async def _list(
        self, context: Context, _: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        session = self._sessions.of(context)
        if not self._ready:  # MCP servers that are starting have no tools yet
            await self._tools.ready(_READY_SECONDS)
            self._ready = True
        return mcp_types.ListToolsResult(tools=self._offered.listed(session))

    async def _call(
        self, context: Context, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        call = self._find_resumed(context, params) or self._begin(context, params)
        try:
            step = await call.step()
        except BaseException:
            self._calls.pop(call.id, None)
            raise
        if isinstance(step, ApprovalRequest):
            return self._input_required(call, step)
        self._calls.pop(call.id, None)
        return to_answer(step)

    def _begin(self, context: Context, params: mcp_types.CallToolRequestParams) -> ServedCall:
        session, arguments = self._sessions.of(context), params.arguments or {}
        call = ServedCall(context, params.name, arguments, session)
        if self._offered.find(params.name) is None:
            raise self._record_unknown(call)
        self._calls[call.id] = call
        call.start(self._tools.execute(params.name, arguments, session=session, call_id=call.id))
        return call

    def _record_unknown(self, call: ServedCall) -> MCPError:
        """Record the call like any other, and return an error with the closest name."""
        unknown_call = ToolCall(
            name=call.name,
            id=call.id,
            called_as=call.name,
            session=call.session,
            number=next(call.session.numbers),
        )
        self._tools.executor.end_unstarted(unknown_call, self._tools.executor.unknown(unknown_call))
        like = closest(call.name, (tool.name for tool in self._offered.listed()), limit=1)
        message = join(
            say("mcp_serve_unknown_tool", tool=call.name[:_MAX_NAME_CHARACTERS]),
            say("mcp_serve_closest_tool", closest=like[0]) if like else None,
            between="",
        )
        wording = self._tools.settings.current.wording or AS_IT_IS
        return MCPError(mcp_types.INVALID_PARAMS, wording.reword(message) or message)

    async def _ask(self, request: ApprovalRequest) -> Decision:
        """Ask the user of the client that made the call."""
        call = self._calls.get(request.call_id or "")
        if call is None or not can_be_asked(call.context):
            raise EOFError("the MCP client cannot ask its user")
        context = call.context
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await call.ask(request)
        answer = await context.session.send_request(
            elicitation(request),
            mcp_types.ElicitResult,
            metadata=ServerMessageMetadata(related_request_id=context.request_id),
        )
        return decision_of(answer)

    def _input_required(
        self, call: ServedCall, request: ApprovalRequest
    ) -> mcp_types.InputRequiredResult:
        """Return the approval form for the client; keep the call until the answer or a timeout."""
        state = secrets.token_urlsafe(16)
        while len(self._waiting) >= _MAX_WAITING:
            self._forget(next(iter(self._waiting)))
        self._waiting[state] = (call, request)
        kept = max(request.deadline - time.time(), 0.0) + _KEPT_SECONDS
        asyncio.get_running_loop().call_later(kept, self._forget, state)
        return mcp_types.InputRequiredResult(
            input_requests={ANSWER: elicitation(request)}, request_state=state
        )

    def _find_resumed(
        self, context: Context, params: mcp_types.CallToolRequestParams
    ) -> ServedCall | None:
        """Return the waiting call that a request resumes with an answer, if there is one."""
        waiting = self._waiting.get(params.request_state or "")
        if waiting is None:
            return None
        call, asked = waiting
        if caller_of(call.context) != caller_of(context):
            raise MCPError(mcp_types.INVALID_PARAMS, "The request state belongs to another client")
        if (call.name, call.arguments) != (params.name, params.arguments or {}):
            raise MCPError(mcp_types.INVALID_PARAMS, "The request state belongs to another call")
        del self._waiting[params.request_state or ""]
        call.context = context
        answer = (params.input_responses or {}).get(ANSWER)
        if isinstance(answer, mcp_types.ElicitResult):
            call.decide(asked, decision_of(answer))
        return call

    def _forget(self, state: str) -> None:
        waiting = self._waiting.pop(state, None)
        if waiting is not None:
            call, _ = waiting
            self._calls.pop(call.id, None)
            call.cancel()

    def _on_event(self, event: ToolEvent) -> None:
        call = self._calls.get(event.call.id or "")
        if event.ends_call:
            self._running.discard(event.call.trace_id)
            if not self._running:
                self._idle.set()
        elif call is not None:
            self._running.add(event.call.trace_id)
            call.on_event(event)

    def _notify_changed(self) -> None:
        """Notify the clients that the list of tools has changed."""
        self._spawn(self._bus.publish(ToolsListChanged()))
        for connection in self._sessions.connections:
            self._spawn(connection.send_tool_list_changed())

    def _spawn(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop(self) -> None:
        for call in (*self._calls.values(), *(call for call, _ in self._waiting.values())):
            call.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


class _ProtocolServer(Server[Any]):
    """The SDK's server, which declares list-changed notifications in the older protocol too."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
    ) -> Any:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, *more, **named)


def _version() -> str:
    try:
        return importlib.metadata.version("leonidas-tools")
    except importlib.metadata.PackageNotFoundError:
        return "0"
