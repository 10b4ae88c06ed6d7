"""One open connection to an MCP server: its tools, its calls, and the reason it ended."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import itertools
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import mcp_types
from mcp.client import InputRequiredRoundsExceededError
from mcp.client.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from leonidas_tools.errors import ConfigurationError, ToolError
from leonidas_tools.mcp.calls.call import (
    asks_without_end,
    malformed_answer,
    server_down,
    server_lost,
    too_long_answer,
)
from leonidas_tools.mcp.calls.results import to_result
from leonidas_tools.mcp.connection.health import HealthCheck
from leonidas_tools.mcp.connection.reconnect import delay_seconds
from leonidas_tools.mcp.features.elicitation import Elicitation
from leonidas_tools.mcp.features.ongoing_calls import OngoingCalls, current_context
from leonidas_tools.mcp.features.resource_tools import ResourceTools
from leonidas_tools.mcp.listing.listing import Listing, list_tools
from leonidas_tools.mcp.transport.http import SESSION_GONE, UNSENT, HTTPServer
from leonidas_tools.mcp.transport.limits import TOO_LONG, UNREADABLE
from leonidas_tools.mcp.transport.reasons import reason_of, root_error, with_place
from leonidas_tools.mcp.transport.redaction import ServerRedaction, discreet_logs
from leonidas_tools.mcp.transport.repairs import CheckedTransport
from leonidas_tools.mcp.transport.stdio import StdioServer
from leonidas_tools.redaction import KnownSecrets
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from leonidas_tools.calls.call import ToolResult
    from leonidas_tools.mcp.calls.call import ServerCall
    from leonidas_tools.mcp.features.ongoing_calls import OnProgress
    from leonidas_tools.mcp.servers import HeadersHook
    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)

_CLOSE_SECONDS = 1.0
_ANSWER_SECONDS = 30.0
_COALESCE_SECONDS = 0.25
_PAUSE_PER_LISTING = 4.0
_MAX_PAUSE_SECONDS = 60.0


class ChangeSignal:
    """A signal that the server's tools should be listed again; signals close together count as one.

    The first signal counts at once. Signals of the next quarter of a second wait until its end: the
    tools are listed at most four times a second. A signal of the server also waits for four times
    the duration of the last listing, but at most a minute.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._is_ours = False
        self._next_at = 0.0
        self._last_at: float | None = None

    def set(self, *, by_server: bool = False) -> None:
        """Send the signal."""
        self._is_ours = self._is_ours or not by_server
        self._event.set()

    async def wait(self, is_urgent: Callable[[], bool]) -> None:
        """Wait for a signal, and for signals close to it unless `is_urgent` returns true."""
        now = asyncio.get_running_loop().time
        took = 0.0 if self._last_at is None else now() - self._last_at
        pause_ends = now() + min(_PAUSE_PER_LISTING * took, _MAX_PAUSE_SECONDS)
        await self._event.wait()
        while not is_urgent():
            ends = self._next_at if self._is_ours else max(self._next_at, pause_ends)
            if (left := ends - now()) <= 0:
                break
            self._event.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._event.wait()
        self._event.clear()
        self._is_ours = False
        self._last_at = now()
        self._next_at = self._last_at + _COALESCE_SECONDS


class MCPConnection:
    """A connection to one server, open inside `async with`; one task must open and close it."""

    def __init__(
        self,
        name: str,
        settings: MCPServerSettings,
        ongoing: OngoingCalls | None = None,
        *,
        discovers: bool = True,
        headers: HeadersHook | None = None,
    ) -> None:
        self.lost: str | None = None
        """Reason for the loss of the connection, once it is lost."""
        self.is_session_gone = False
        """Whether the server no longer knows the session of the connection."""
        self.exit_code: int | None = None
        """The exit code of a server over stdio, if the connection was lost by its exit."""
        self.limit_seconds = settings.timeout or _ANSWER_SECONDS
        """Timeout of any request except a call."""
        self._discovers = discovers
        self._headers = headers
        self._name = name
        self._settings = settings
        self._ongoing = ongoing or OngoingCalls()
        self._resource_tools = ResourceTools(name, settings)
        self._redact = ServerRedaction(settings)
        self._stack = AsyncExitStack()
        self._checked = CheckedTransport(
            name,
            self._redact.without_tokens,
            lambda: self._version,
            self._redact.cut,
            partial(self.lose, "closed the connection") if settings.transport == "sse" else None,
        )
        self._stdio: StdioServer | None
        self._closed = False
        self._connect_seconds: float | None = None
        self._version = ""
        """The protocol version, once the connection is open."""
        self._health = HealthCheck(
            self.ping, every_seconds=settings.ping_every or None, limit_seconds=self.limit_seconds
        )
        self._client: Client = self._new_client()
        self._changes = ChangeSignal()
        self._calls: set[asyncio.Future[None]] = set()
        """The running calls; each sets its future when it ends."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        started = asyncio.get_running_loop().time()
        self._stack.enter_context(discreet_logs(self._redact))
        try:
            await self._stack.enter_async_context(self._client)
        except BaseException:
            await self._stack.aclose()
            raise
        self._version = self._client.protocol_version
        self._connect_seconds = asyncio.get_running_loop().time() - started
        if self._announces_changes() and self._is_modern():
            self._tasks.add(asyncio.create_task(self._keep_subscribed()))
        self._tasks.add(asyncio.create_task(self._watch_health()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._closed = True
        self._ongoing.close()  # their answers could not be sent
        ending: set[asyncio.Future[None]] = {*self._calls, *self._tasks}
        for task in self._tasks:
            task.cancel()
        # First, and in every case: a client left open would cancel this task forever. Only the
        # client's cancel scopes can recognize their own cancellation.
        swallowed = await self._stack.__aexit__(kind, error, traceback)
        if ending:
            await asyncio.wait(ending, timeout=_CLOSE_SECONDS)
        return bool(swallowed)

    def lose(self, reason: str, exit_code: int | None = None) -> None:
        """Record that the connection is lost."""
        if self.lost is None:
            self.lost, self.exit_code = reason, exit_code
        self._changes.set()

    async def wait_for_change(self) -> bool:
        """Wait until the tools should be listed again; return `False` if the connection is lost."""
        await self._changes.wait(lambda: self.lost is not None)
        return self.lost is None

    def relist(self, settings: MCPServerSettings | None = None) -> None:
        """Request a new listing of the tools, with new settings of the same server if given."""
        if settings is not None:
            self._resource_tools.settings = settings
        self._changes.set()

    async def tools(self) -> Listing:
        """Return the tools of all pages, and those for resources and prompts.

        Raises:
            ConfigurationError: The pages never end.
        """
        listing = await list_tools(self._name, self._client, self._checked)
        offered = self._resource_tools.tools(self._client.server_capabilities)
        return replace(listing, tools=[*listing.tools, *offered])

    async def call(self, call: ServerCall, on_progress: OnProgress) -> ToolResult:
        """Call a tool; cancellation cancels the call at the server, which may take seconds.

        Raises:
            RetryableError: The call did not reach the server.
            ToolError: The server refused the call, or the connection was lost during it.
        """
        unusable = self._unusable_reason
        if unusable is not None:
            raise server_down(self._name, unusable)
        ended = asyncio.get_running_loop().create_future()
        self._calls.add(ended)
        try:
            with self._health.call(call.seconds):
                answer = await self._send(call, on_progress)
            return to_result(answer, note=self._checked.note_on(call.tool, answer))
        except MCPError as error:
            raise self._tool_error(error, call) from error
        except InputRequiredRoundsExceededError as error:
            rounds = error.max_rounds
            raise asks_without_end(self._name, call.tool, rounds, once=call.once) from error
        except (RuntimeError, ValueError) as error:
            logger.warning("MCP server %r: the result of %r is malformed", self._name, call.tool)
            raise malformed_answer(self._name, call.tool, once=call.once) from error
        finally:
            self._calls.discard(ended)
            ended.set_result(None)

    def explain(self, error: BaseException | None) -> str:
        """Return why the connection failed or ended, without secrets."""
        error = root_error(error)
        if isinstance(error, ConfigurationError):
            return self._redact(error.message)
        return with_place(self._redact(self.lost or _reason(error)), self._settings.url)

    @property
    def needs_initialize(self) -> bool:
        """Return whether the server has ended at `server/discover`, or was silent to it."""
        if not self._discovers:
            return True
        has_ended = self._stdio is not None and self.lost is not None
        if self._checked.is_probing and has_ended:
            return True
        return self._checked.ignores_discover and not self._is_modern()

    @property
    def status(self) -> dict[str, Any]:
        """Return the status of an open connection as plain JSON."""
        status = {
            "pid": None if self._stdio is None else self._stdio.pid,
            "protocol_version": self._version,
            "connect_seconds": self._connect_seconds,
            "last_ping_seconds": self._health.last_ping_seconds,
        }
        return {key: value for key, value in status.items() if value is not None}

    @property
    def has_printed(self) -> bool:
        """Return whether a server over stdio has printed output that is not a message."""
        return self._stdio is not None and self._stdio.garbage is not None

    @property
    def last_output(self) -> str:
        """Return the output of a server over stdio that explains its end; not for the model."""
        if self._stdio is None:
            return ""
        garbage, lines = self._stdio.garbage, self._stdio.last_lines
        printed = f"; it printed {garbage!r}, which is not an MCP message" if garbage else ""
        return printed + (f"; it last wrote: {' / '.join(lines)}" if lines else "")

    async def ping(self) -> None:
        """Send the cheapest request; the newer protocol has no ping."""
        session = self._client.session
        with contextlib.suppress(MCPError, ValidationError):
            if self._is_modern():
                await session.send_discover(self._version)
            else:
                await session.send_ping()

    def _new_client(self) -> Client:
        secrets = KnownSecrets(self._settings.secrets())
        elicitation = None
        if self._settings.elicitation:
            elicitation = Elicitation(self._name, self._ongoing, secrets)
        return Client(
            self._checked.open(self._transport()),
            mode="auto" if self._discovers else "legacy",
            client_info=_client_info(),
            message_handler=self._on_message,
            cache=None,
            elicitation_callback=elicitation,
        )

    def _transport(self) -> Any:
        name, settings, heard = self._name, self._settings, self._health.heard
        self._stdio = None
        if settings.command is not None:
            self._stdio = StdioServer(
                name, settings, self._redact, on_lost=self.lose, on_bytes=heard
            )
            return self._stdio.streams()
        on_failure = self.lose if settings.transport == "sse" else self._check_server
        return HTTPServer(
            name,
            settings,
            on_failure,
            on_bytes=heard,
            on_secret=self._redact.learn,
            headers=None if self._headers is None else self._read_headers,
        ).streams()

    async def _read_headers(self) -> Mapping[str, str]:
        assert self._headers is not None
        headers = await self._headers(self._name, current_context())
        for value in headers.values():
            self._redact.add_token(value.rpartition(" ")[2])  # without `Bearer`
        return headers

    def _check_server(self, failure: str) -> None:
        """List the tools after a failed request: that shows whether the server is still there."""
        logger.debug("MCP server %r: %s", self._name, failure)
        self._changes.set()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._changes.set(by_server=True)

    def _announces_changes(self) -> bool:
        tools = self._client.server_capabilities.tools
        return tools is not None and bool(tools.list_changed)

    def _is_modern(self) -> bool:
        return self._version in MODERN_PROTOCOL_VERSIONS

    async def _keep_subscribed(self) -> None:
        """Keep the stream open on which newer servers send notifications of changed tools.

        The client passes the notifications to `_on_message`, like those of older servers.
        """
        for attempt in itertools.count():
            try:
                async with self._client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        pass
            except SubscriptionLost:
                pass
            except MCPError as error:
                if error.code == mcp_types.METHOD_NOT_FOUND:
                    return
            self._check_server("the stream of changes has ended")  # so changes may be missed
            await asyncio.sleep(delay_seconds(attempt))

    async def _watch_health(self) -> None:
        await self._health.wait_until_lost()
        self.lose(say("mcp_no_ping", seconds=f"{self.limit_seconds:g}"))

    @property
    def _unusable_reason(self) -> str | None:
        """Return why no call can be made; `None` if calls can be made."""
        if self.lost is not None:
            return self._redact(self.lost)
        return say("mcp_closed") if self._closed else None

    async def _send(self, call: ServerCall, on_progress: OnProgress) -> mcp_types.CallToolResult:
        if request := self._resource_tools.request(self._client, call.tool, call.arguments):
            return await request
        return await self._client.call_tool(
            call.tool, dict(call.arguments), progress_callback=on_progress
        )

    def _tool_error(self, error: MCPError, call: ServerCall) -> ToolError:
        if error.code == TOO_LONG:
            return too_long_answer(self._name, call.tool, error.message)
        if error.code in UNREADABLE:
            return malformed_answer(self._name, call.tool, once=call.once)
        if error.code == SESSION_GONE:
            self.is_session_gone = self.is_session_gone or self.lost is None
            self.lose(say("mcp_session_gone"))
            return server_down(self._name, say("mcp_session_gone"))
        if error.code in UNSENT:
            return server_down(self._name, error.message)
        # Over HTTP, one request may be cut off while the others continue.
        cut_off = self._stdio is None and error.code == mcp_types.CONNECTION_CLOSED
        unusable = self._unusable_reason
        if unusable is None and not cut_off:
            return ToolError(self._redact(error.message), reason_code="mcp_error")
        self._check_server(error.message)
        reason = unusable or self._redact(error.message)
        return server_lost(self._name, reason, once=call.once)


def _reason(error: BaseException | None) -> str:
    if isinstance(error, MCPError) and error.code in UNREADABLE:
        answer = error.message if error.code == TOO_LONG else "invalid output"
        return f"it answered with {answer}"
    return reason_of(error)


def _client_info() -> mcp_types.Implementation:
    try:
        version = importlib.metadata.version("leonidas-tools")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    return mcp_types.Implementation(name="leonidas-tools", version=version)
