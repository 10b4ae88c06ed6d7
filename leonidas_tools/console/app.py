"""The console: a page for a person, and an HTTP API for programs."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from importlib.resources import files
from typing import TYPE_CHECKING, Self

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from leonidas_tools.console.api import Api, errors_as_json
from leonidas_tools.console.event_source import EventSource
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.mcp_server.guard import AccessGuard, HTTPAccess, is_loopback
from leonidas_tools.mcp_server.serving import listening, serve_app
from leonidas_tools.runtime.runtime import ToolRuntime, runtime_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from leonidas_tools.console.talk import Agents
    from leonidas_tools.processors.advanced import AdvancedToolProcessor

_SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(self)",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_MAX_MESSAGE_BYTES = 16_384
_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}


def _page_routes() -> list[Route]:
    """Return a route for each file of the page; the page itself is at `/`."""
    folder = files("leonidas_tools.console") / "static"
    routes = []
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        kind = file.name.rpartition(".")[2]
        if kind in _TYPES:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            routes.append(Route(path, _file(file.read_bytes(), _TYPES[kind])))
    return routes


def _file(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return Response(content, media_type=media_type, headers={"cache-control": "no-cache"})

    return answer


_PUBLIC = frozenset({"/healthz", "/openapi.json", "/readyz", *(r.path for r in _page_routes())})
"""Paths without the token; all others need it, in every spelling."""


class ConsoleApp:
    """The console of some tools, as an ASGI app; made by `console_app`.

    It serves requests inside `async with`, which opens the tools. A server that runs only this app
    enters it by the lifespan protocol; mount it with `lifespan=lambda _: app`.
    """

    def __init__(self, tools: ToolRuntime, access: HTTPAccess, agents: Agents | None) -> None:
        from leonidas_tools.console.talk import TalkEndpoint  # imports google-genai, for seconds

        self.tools = tools
        self._closing = asyncio.Event()
        self._stack = AsyncExitStack()
        api = Api(tools, has_agent=agents is not None)
        self._talk = TalkEndpoint(agents, self._closing)
        events = EventSource(tools.events, self._closing)
        routes = [
            *_page_routes(),
            *api.routes(),
            Route("/api/events", events.answer),
            WebSocketRoute("/api/talk", self._talk.answer),
        ]
        routed = Starlette(routes=routes, exception_handlers=errors_as_json())
        routed.router.redirect_slashes = False
        self._app: ASGIApp = AccessGuard(routed, access, public=_is_public)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.tools)
            # Conversations end before the tools that they use.
            stack.push_async_callback(self._talk.wait_until_ended)
            stack.callback(self._closing.set)  # the event streams end only by this
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection of ASGI."""
        if scope["type"] == "lifespan":
            await receive()
            async with self:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await self._app(scope, receive, _with_headers(send))
        else:
            await self._app(scope, receive, send)


def console_app(
    tools: ToolRuntime | AdvancedToolProcessor,
    *,
    token: str,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    agents: Agents | None = None,
) -> ConsoleApp:
    """Return the console of these tools, to run alone or in a Starlette application.

    Run it on the event loop of the sessions that use the tools. The page itself needs no token,
    but all its data does; `/openapi.json` describes the requests.

    Args:
        tools: The tools; the app opens them.
        token: The token of `Authorization: Bearer …`. The page reads it from `#token=…`.
        hosts: Allowed `Host` names besides those of this machine.
        origins: Origins of other pages that may use it, such as `https://desk.example.com`.
        agents: Opens the agent of each conversation on the page, such as a `LiveToolSession`;
            returns a context manager. Without it, the page has no conversations.

    Raises:
        ConfigurationError: The token is empty.
        TypeError: `tools` is neither a `ToolRuntime` nor an `AdvancedToolProcessor`.

    Example:
        >>> from leonidas_tools import ToolRuntime
        >>> from starlette.applications import Starlette
        >>> from starlette.routing import Mount
        >>> console = console_app(ToolRuntime(), token="s3cret")
        >>> app = Starlette(routes=[Mount("/console", console)], lifespan=lambda _: console)
    """
    runtime = runtime_of(tools)
    if runtime is None:
        raise TypeError(f"tools must be a ToolRuntime or an AdvancedToolProcessor, not {tools!r}")
    if not token:
        raise ConfigurationError("The console is served only with a token: give one")
    access = HTTPAccess(token=token, hosts=tuple(hosts), origins=tuple(origins))
    return ConsoleApp(runtime, access, agents)


async def serve_console(  # noqa: PLR0913 - each is an option of the server
    tools: ToolRuntime | AdvancedToolProcessor,
    *,
    token: str,
    host: str = "127.0.0.1",
    port: int = 8787,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    agents: Agents | None = None,
    on_listening: Callable[[str], object] | None = None,
) -> None:
    """Serve the console of these tools over HTTP, until cancelled.

    Run it on the event loop of the sessions that use the tools.

    Args:
        tools: The tools; this function opens them.
        token: The token of `Authorization: Bearer …`.
        host: The address to listen on.
        port: The port; 0 for a free one.
        hosts: Allowed `Host` names besides those of this machine.
        origins: Origins of other pages that may use it.
        agents: Opens the agent of each conversation on the page.
        on_listening: Callback that receives the address once the server listens.

    Raises:
        ConfigurationError: The server cannot listen on this address, or the token is empty.
    """
    names = (*hosts, *(() if is_loopback(host) else (host,)))
    app = console_app(tools, token=token, hosts=names, origins=origins, agents=agents)
    with listening(host, port) as listener:
        await serve_app(
            app,
            listener,
            running=app,
            longest_message_bytes=_MAX_MESSAGE_BYTES,
            on_listening=on_listening,
        )


def _is_public(path: str) -> bool:
    """Return whether a path needs no token: the page without data, and the health checks."""
    return path in _PUBLIC


def _with_headers(send: Send) -> Send:
    raw = [(name.encode(), value.encode()) for name, value in _SECURITY_HEADERS.items()]

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *raw]}
        await send(message)

    return send_with_headers
