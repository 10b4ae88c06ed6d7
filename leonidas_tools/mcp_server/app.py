"""The tools as an ASGI app, for any ASGI server."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

from mcp.server.streamable_http_manager import (
    RequestBodyLimitMiddleware,
    StreamableHTTPSessionManager,
)
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from leonidas_tools.mcp_server.guard import AccessGuard, HTTPAccess
from leonidas_tools.mcp_server.request_ids import RequestCheck
from leonidas_tools.mcp_server.server import ToolServer
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from leonidas_tools.processors.advanced import AdvancedToolProcessor
    from leonidas_tools.runtime.runtime import ToolRuntime

_MAX_BODY_BYTES = 4 * 1024 * 1024
_MAX_SESSIONS = 256
_IDLE_SECONDS = 600.0
logger = visible_logger(__name__)
_SESSION = "mcp-session-id"
_REFUSED, _NOT_FOUND = 400, 404


class MCPApp:
    """The tools over streamable HTTP, as an ASGI app; created by `mcp_app`.

    The app serves requests inside `async with`. An application that mounts the app uses it as its
    lifespan; without one, the ASGI server enters the app through the lifespan protocol.
    """

    def __init__(
        self,
        server: ToolServer,
        access: HTTPAccess,
        *,
        most_sessions: int = _MAX_SESSIONS,
        most_body_bytes: int = _MAX_BODY_BYTES,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self.server = server
        self._access = access
        self._most_sessions = most_sessions
        self._most_body_bytes = most_body_bytes
        self._idle_seconds = idle_seconds
        self._guard: AccessGuard | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        logging.getLogger("sse_starlette.sse").addFilter(_keeps_record)
        sessions = StreamableHTTPSessionManager(
            self.server.mcp,
            session_idle_timeout=self._idle_seconds,
            max_request_body_size=self._most_body_bytes,
            max_sessions=self._most_sessions,
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.server)
            await stack.enter_async_context(sessions.run())
            checked = RequestCheck(sessions.handle_request)
            bounded = RequestBodyLimitMiddleware(checked, self._most_body_bytes)
            limited = SessionLimit(bounded, self._most_sessions)
            self._guard = AccessGuard(limited, self._access)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._guard = None
        await self._stack.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1002})
        elif self._guard is None:
            await PlainTextResponse("The tools are not available.", 503)(scope, receive, send)
        else:
            await self._guard(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def mcp_app(
    tools: ToolRuntime | AdvancedToolProcessor,
    *,
    patterns: Sequence[str] = (),
    token: str | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> MCPApp:
    """Return the tools as an ASGI app, to serve alone or as a route of a Starlette application.

    Raises:
        ConfigurationError: The app would accept other hosts without a token, or the token is empty.

    Example:
        >>> from leonidas_tools import AdvancedToolProcessor
        >>> from starlette.applications import Starlette
        >>> from starlette.routing import Route
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> tools = mcp_app(AdvancedToolProcessor(tools=[add]))
        >>> app = Starlette(routes=[Route("/mcp", tools)], lifespan=lambda _: tools)
    """
    access = HTTPAccess(token=token, hosts=tuple(hosts), origins=tuple(origins))
    return MCPApp(ToolServer(tools, patterns, _MAX_SESSIONS), access)


def _keeps_record(record: logging.LogRecord) -> bool:
    """Return whether to keep a log record: those at DEBUG contain the streamed messages."""
    return record.levelno > logging.DEBUG


class SessionLimit:
    """ASGI middleware that ends the longest idle session before a new one exceeds the limit.

    A session is idle if none of its requests is running. If no session is idle, the app refuses the
    new one. The next request of an ended session returns 404, and its client opens a new session.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._open: OrderedDict[str, None] = OrderedDict()  # the longest idle comes first
        self._requests: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        session = Headers(scope=scope).get(_SESSION)
        if session is None and len(self._open) >= self._most:
            await self._make_room(scope)
        begun: list[str] = []

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened = Headers(raw=message["headers"]).get(_SESSION)
                if session is None and opened is not None:
                    begun.append(opened)
                    self._begin(opened)
                elif session is not None and _is_over(scope["method"], message["status"]):
                    self._open.pop(session, None)
            await send(message)

        if session is not None and session in self._open:
            begun.append(session)
            self._begin(session)
        try:
            await self._app(scope, receive, watch)
        finally:
            for each in begun:
                self._end(each)

    def _begin(self, session: str) -> None:
        self._open[session] = None
        self._requests[session] += 1

    def _end(self, session: str) -> None:
        self._requests[session] -= 1
        if not self._requests[session]:
            del self._requests[session]
        if session in self._open:
            self._open.move_to_end(session)

    async def _make_room(self, scope: Scope) -> None:
        """End the longest idle session, if any session is idle."""
        silent = next((each for each in self._open if each not in self._requests), None)
        if silent is None:
            return
        del self._open[silent]
        logger.info("Ended the longest idle session: %d are open", self._most)

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def ignore(_: Message) -> None:
            pass

        headers = [(_SESSION.encode(), silent.encode()), (b"accept", b"application/json")]
        await self._app({**scope, "method": "DELETE", "headers": headers}, receive, ignore)


def _is_over(method: str, status: int) -> bool:
    """Return whether a response means that its session has ended."""
    return status == _NOT_FOUND or (method == "DELETE" and status < _REFUSED)
