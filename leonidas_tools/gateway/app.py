"""The gateway: `/conversation`, the health checks and the metrics."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Self

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from leonidas_tools.gateway.conversation import GatewayConversation, restarting
from leonidas_tools.gateway.limits import Admission, GatewayLimits, RunningSessions
from leonidas_tools.gateway.resumption_guard import ResumptionGuard
from leonidas_tools.gateway.talk import close
from leonidas_tools.gateway.tokens import METRICS_AUDIENCE, TokenError, check_secret, user_of
from leonidas_tools.gateway.wire import PROTOCOL, CloseError
from leonidas_tools.mcp_server.guard import (
    HTTPAccess,
    bearer_token,
    is_loopback,
    subprotocol_token,
)
from leonidas_tools.mcp_server.serving import listening, serve_app
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send
    from starlette.websockets import WebSocket

    from leonidas_tools.live.gemini import GeminiLiveProcessor
    from leonidas_tools.processors.advanced import AdvancedToolProcessor

logger = visible_logger(__name__)

CONVERSATION: Final = "/conversation"
HEALTH: Final = "/healthz"
READINESS: Final = "/readyz"
METRICS: Final = "/metrics"
_MAX_MESSAGE_BYTES = 64_000
"""Limit of a WebSocket message: more than a second of audio in the largest format."""
_NO_STORE = {"cache-control": "no-store"}


class GatewayApp:
    """The gateway of some tools, as an ASGI app; made by `gateway_app`.

    It serves requests inside `async with`, which opens the tools; leaving ends all conversations.
    A server that runs only this app enters it by the lifespan protocol.
    """

    def __init__(
        self,
        tools: AdvancedToolProcessor,
        model: GeminiLiveProcessor,
        *,
        secret: str,
        access: HTTPAccess,
        limits: GatewayLimits,
    ) -> None:
        self.tools = tools
        self.limits = limits
        self._model = model
        self._secret = secret
        self._access = access
        self._admission = Admission(limits, tools.store)
        is_durable = tools.store is not None and tools.store.settings.durable
        self._guard = None if is_durable else ResumptionGuard(tools)
        self._metrics = _Metrics(self._admission)
        self._draining = asyncio.Event()
        self._closing = asyncio.Event()
        self._running_sessions = RunningSessions()
        self._running: set[asyncio.Task[object]] = set()
        self._stack = AsyncExitStack()
        self._app = Starlette(
            routes=[
                WebSocketRoute(CONVERSATION, self._converse),
                Route(HEALTH, self._is_alive),
                Route(READINESS, self._is_ready),
                Route(METRICS, self._show_metrics),
            ]
        )
        self._app.router.redirect_slashes = False

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.tools)
            if self._guard is not None:
                stack.callback(self.tools.monitor.subscribe(self._guard))
            stack.push_async_callback(self._end_all)  # ends before the tools that they use
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
                await self.drain()
            await send({"type": "lifespan.shutdown.complete"})
            return
        refusal = self._access.refusal(Headers(scope=scope))
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            status, why = refusal
            logger.info("A request was refused with %d: %s", status, why)
            await PlainTextResponse(why, status)(scope, receive, send)

    async def drain(self) -> None:
        """Refuse new conversations, and wait for the others to end at a quiet moment.

        Conversations that still run after `limits.grace_seconds` are ended. Clients receive the
        close code 1012.
        """
        self._draining.set()
        if self._running:
            await asyncio.wait(self._running, timeout=self.limits.grace_seconds)
        await self._end_all()

    async def _end_all(self) -> None:
        """End all conversations."""
        self._draining.set()
        self._closing.set()
        if self._running:
            await asyncio.wait(self._running)

    async def _converse(self, websocket: WebSocket) -> None:
        try:
            user = self._user(websocket)
        except TokenError as error:
            self._metrics.count_refusal("token")
            client = websocket.client.host if websocket.client else "unknown"
            logger.info("A client at %s was refused, since it is not signed in: %s", client, error)
            await websocket.send_denial_response(
                PlainTextResponse("Sign in with a valid token of this gateway", 401)
            )
            return
        await websocket.accept(PROTOCOL if PROTOCOL in websocket.scope["subprotocols"] else None)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            await self._hold(websocket, user)
        finally:
            self._running.discard(task)

    async def _hold(self, websocket: WebSocket, user: str) -> None:
        try:
            if self._draining.is_set():
                raise restarting()
            async with self._admission.admit(user):
                await self._run_conversation(websocket, user)
        except CloseError as refused:
            self._metrics.count_refusal(refused.why)
            logger.info("A conversation of %r was refused: %s", user, refused)
            await close(websocket, refused)

    async def _run_conversation(self, websocket: WebSocket, user: str) -> None:
        conversation = GatewayConversation(
            websocket,
            user=user,
            secret=self._secret,
            model=self._model,
            tools=self.tools,
            limits=self.limits,
            draining=self._draining,
            closing=self._closing,
            running_sessions=self._running_sessions,
            guard=self._guard,
        )
        self._metrics.count_start()
        try:
            await conversation.run()
        except WebSocketDisconnect:
            self._record_end("left", conversation, "The client has left")
        except CloseError as closed:
            self._record_end(closed.why, conversation, closed.reason)
            await close(websocket, closed)

    def _record_end(self, why: str, conversation: GatewayConversation, reason: str) -> None:
        self._metrics.count_end(why)
        logger.info("%s has ended: %s", conversation, reason)

    def _user(self, websocket: WebSocket) -> str:
        offered: Sequence[str] = websocket.scope["subprotocols"]
        token = bearer_token(websocket.headers) or subprotocol_token(offered)
        return user_of(token, self._secret)

    async def _is_alive(self, _: Request) -> Response:
        return JSONResponse({"status": "alive"}, headers=_NO_STORE)

    async def _is_ready(self, _: Request) -> Response:
        """Return whether a conversation can start: MCP servers are started, no drain is running."""
        states = {server["state"] for server in self.tools.mcp_servers.status()}
        starting = not states.isdisjoint({"starting", "connecting"})
        status = "draining" if self._draining.is_set() else "starting" if starting else "ready"
        return JSONResponse(
            {"status": status}, 200 if status == "ready" else 503, headers=_NO_STORE
        )

    async def _show_metrics(self, request: Request) -> Response:
        try:
            user_of(bearer_token(request.headers), self._secret, audience=METRICS_AUDIENCE)
        except TokenError:
            why = "Send a token for the metrics as Authorization: Bearer …"
            return PlainTextResponse(why, 401, {"WWW-Authenticate": "Bearer"})
        kind = "text/plain; version=0.0.4; charset=utf-8"
        tools = await asyncio.to_thread(self.tools.monitor.prometheus().exposition)
        return Response(self._metrics.exposition() + tools, media_type=kind)


def gateway_app(  # noqa: PLR0913 - each is an option of the server
    tools: AdvancedToolProcessor,
    model: GeminiLiveProcessor,
    *,
    secret: str,
    limits: GatewayLimits | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    any_address: bool = False,
) -> GatewayApp:
    """Return the gateway of these tools, an ASGI app.

    Args:
        tools: The tools of all conversations; the app opens them. Each conversation has a session
            with its user, for policies and rules.
        model: The model of all conversations.
        secret: The secret that signs tokens, at least 32 bytes.
        limits: The limits of this process.
        hosts: Allowed `Host` names besides those of this machine.
        origins: Origins of web pages of other servers that may use it.
        any_address: Whether any IP address is an allowed `Host`, as behind a proxy.

    Raises:
        ConfigurationError: The secret is too short.
        TypeError: An argument is of a wrong type.
    """
    access = HTTPAccess(  # checks Host and Origin; each user has their own token
        token=check_secret(secret),
        hosts=tuple(hosts),
        origins=tuple(origins),
        any_address=any_address,
    )
    return GatewayApp(tools, model, secret=secret, access=access, limits=limits or GatewayLimits())


async def serve_gateway(  # noqa: PLR0913 - each is an option of the server
    tools: AdvancedToolProcessor,
    model: GeminiLiveProcessor,
    *,
    secret: str,
    host: str = "127.0.0.1",
    port: int = 8788,
    limits: GatewayLimits | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    listener: socket.socket | None = None,
    on_listening: Callable[[str], object] | None = None,
) -> None:
    """Serve conversations over WebSockets, until cancelled; then drain.

    If cancelled again while it drains, end all conversations at once.

    Args:
        tools: The tools of all conversations; this function opens them.
        model: The model of all conversations.
        secret: The secret that signs tokens, at least 32 bytes.
        host: The address to listen on. Beyond this machine, put a proxy with TLS in front.
        port: The port; 0 for a free one.
        limits: The limits of this process.
        hosts: Allowed `Host` names besides those of this machine.
        origins: Origins of web pages of other servers that may use it.
        listener: A listening socket, instead of `host` and `port`.
        on_listening: Callback that receives the address once the server listens.

    Raises:
        ConfigurationError: The server cannot listen on this address, or the secret is too short.
    """
    app = gateway_app(
        tools,
        model,
        secret=secret,
        limits=limits,
        hosts=hosts,
        origins=origins,
        any_address=not is_loopback(host),
    )
    with contextlib.nullcontext(listener) if listener else listening(host, port) as opened:
        await serve_app(
            app,
            opened,
            running=app,
            longest_message_bytes=_MAX_MESSAGE_BYTES,
            on_listening=on_listening,
            drain=app.drain,  # while it listens, so that probes receive a response
        )


class _Metrics:
    """The metrics of the conversations of one process, without users."""

    def __init__(self, admission: Admission) -> None:
        self._registry = CollectorRegistry()
        now = Gauge("leonidas_conversations", "Conversations.", registry=self._registry)
        now.set_function(lambda: admission.conversations)
        self._started = Counter(
            "leonidas_conversations_started", "Started conversations.", registry=self._registry
        )
        self._ended = Counter(
            "leonidas_conversations_ended",
            "Conversations that ended, by reason.",
            ("reason",),
            registry=self._registry,
        )
        self._refused = Counter(
            "leonidas_conversations_refused",
            "Conversations that were refused, by reason.",
            ("reason",),
            registry=self._registry,
        )

    def count_start(self) -> None:
        """Count a conversation that starts."""
        self._started.inc()

    def count_end(self, reason: str) -> None:
        """Count a conversation that ends."""
        self._ended.labels(reason).inc()

    def count_refusal(self, reason: str) -> None:
        """Count a conversation that is refused."""
        self._refused.labels(reason).inc()

    def exposition(self) -> bytes:
        """Return the page in the text format of Prometheus."""
        return generate_latest(self._registry)
