"""Check the permissions of HTTP clients before a request is read."""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
import re
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BODY_SECONDS = 30.0
_MAX_UNFINISHED_BYTES = 64 * 1024 * 1024
"""Most bytes of bodies that are not complete yet: hundreds of connections may send one each."""
_BEARER_SUBPROTOCOL = "bearer."
"""Prefix of the token in base64url, among the subprotocols that a WebSocket offers."""
_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[\da-fA-F:.]+\](:\d+)?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class HTTPAccess:
    """The permissions of clients.

    Without a token, the server must accept only the loopback names of this machine as its host.

    Args:
        token: The token required in `Authorization: Bearer …`; `None` if none is required.
        hosts: Host names that the server accepts besides the loopback names, with a port or for
            any port.
        origins: Origins of web pages that may use the server, such as `https://app.example.com`.
        any_address: Whether the server accepts any IP address as its host.

    Raises:
        ConfigurationError: The server would accept other hosts without a token, or the token is
            empty.

    Example:
        >>> HTTPAccess(token="s3cret", hosts=("tools.example.com",))
        HTTPAccess(hosts=('tools.example.com',), origins=(), any_address=False)
    """

    token: str | None = field(default=None, repr=False)
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    any_address: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and not self.token.strip():
            raise ConfigurationError("The token is empty: set a token, or omit it")
        elsewhere = [host for host in self.hosts if not is_loopback(_name_of(host))]
        if self.token is None and (elsewhere or self.any_address):
            raise ConfigurationError("Serving other machines requires a token: set one")

    def refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Return the status and text that refuse a request; `None` if the request is allowed."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._answers_to(hosts[0].lower()):
            return 421, "This server does not accept that host."
        if origins and not self._is_allowed(origins, hosts[0].lower()):
            return 403, "This origin may not use this server."
        return None

    def knows(self, headers: Headers) -> bool:
        """Return whether a request contains the token, or no token is required."""
        if self.token is None:
            return True
        return self._is_token(bearer_token(headers))

    def knows_websocket(self, headers: Headers, subprotocols: Sequence[str]) -> bool:
        """Return whether a WebSocket has the token; a web page can send it only as subprotocol."""
        return self.knows(headers) or self._is_token(subprotocol_token(subprotocols))

    def _is_token(self, given: bytes | None) -> bool:
        if self.token is None or given is None:
            return False
        return hmac.compare_digest(given, self.token.encode())

    def _answers_to(self, host: str) -> bool:
        name = _name_of(host)
        if is_loopback(name) or any(one in {host, name} for one in map(str.lower, self.hosts)):
            return True
        return self.any_address and _address(name) is not None

    def _is_allowed(self, origins: Sequence[str], host: str) -> bool:
        """Return whether the origin is this server or a configured origin."""
        if len(origins) != 1:
            return False
        origin = origins[0].lower()
        named = [one.lower().rstrip("/") for one in self.origins]
        return origin in named or origin in {f"http://{host}", f"https://{host}"}


class AccessGuard:
    """ASGI middleware that refuses clients without permission, and limits the bodies of requests.

    A body has a time limit, and all incomplete bodies together have a length limit.

    `public` returns whether a path needs no token.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: HTTPAccess,
        *,
        public: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._access = access
        self._bodies = _Bodies()
        self._app: ASGIApp = _TokenCheck(app, access, public)
        if access.origins:
            from starlette.middleware.cors import CORSMiddleware

            self._app = CORSMiddleware(
                self._app,
                allow_origins=access.origins,
                allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
                allow_headers=("*",),
                expose_headers=("Mcp-Session-Id",),
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        refusal = self._access.refusal(Headers(scope=scope))
        if refusal is not None:
            status, why = refusal
            await PlainTextResponse(why, status)(scope, receive, send)
        elif scope["type"] == "http":
            body = _Body(receive, self._bodies)
            try:
                await self._app(scope, body.receive, send)
            finally:
                self._bodies.end(body)
        else:
            await self._app(scope, receive, send)


class _TokenCheck:
    def __init__(self, app: ASGIApp, access: HTTPAccess, public: Callable[[str], bool]) -> None:
        self._app = app
        self._access = access
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if self._public(path) or self._knows(scope):
            await self._app(scope, receive, send)
            return
        refusal = PlainTextResponse(
            "Send the token of this server as Authorization: Bearer …",
            401,
            {"WWW-Authenticate": "Bearer"},
        )
        await refusal(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        if scope["type"] == "websocket":
            return self._access.knows_websocket(headers, scope.get("subprotocols", ()))
        return self._access.knows(headers)


class _Bodies:
    """The incomplete bodies of all requests; if they are too long together, the longest ends.

    So no client can end the short requests of others by sending many long ones.
    """

    def __init__(self) -> None:
        self._lengths: dict[_Body, int] = {}
        self._total = 0

    def grow(self, body: _Body, length: int) -> None:
        """Record a part of an incomplete body."""
        self._lengths[body] = self._lengths.get(body, 0) + length
        self._total += length
        while len(self._lengths) > 1 and self._total > _MAX_UNFINISHED_BYTES:
            longest = max(self._lengths, key=self._lengths.__getitem__)
            self.end(longest)
            longest.give_up()

    def end(self, body: _Body) -> None:
        """Forget a body."""
        self._total -= self._lengths.pop(body, 0)


class _Body:
    """The body of a request, with a time limit."""

    def __init__(self, receive: Receive, bodies: _Bodies) -> None:
        self._receive = receive
        self._bodies = bodies
        self._timeout: asyncio.Timeout | None = None
        self._ends: float | None = asyncio.get_running_loop().time() + _BODY_SECONDS
        self._is_given_up = False

    async def receive(self) -> Message:
        """Return the next message; a disconnect message after the time limit or `give_up`."""
        if self._is_given_up:
            return {"type": "http.disconnect"}
        try:
            async with asyncio.timeout_at(self._ends) as self._timeout:
                message = await self._receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        finally:
            self._timeout = None
        if message.get("more_body", False):
            self._bodies.grow(self, len(message.get("body", b"")))
        else:
            self._ends = None
            self._bodies.end(self)
        return message

    def give_up(self) -> None:
        """Receive nothing more."""
        self._is_given_up = True
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())


def bearer_token(headers: Headers) -> bytes | None:
    """Return the token of `Authorization: Bearer …`, if there is one."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip().encode() if scheme.lower() == "bearer" else None


def subprotocol_token(subprotocols: Sequence[str]) -> bytes | None:
    """Return the token that a WebSocket sends in base64url as a subprotocol, if there is one."""
    for each in subprotocols:
        if each.startswith(_BEARER_SUBPROTOCOL):
            encoded = each.removeprefix(_BEARER_SUBPROTOCOL)
            try:
                return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
            except ValueError:
                return None
    return None


def is_loopback(name: str) -> bool:
    """Return whether a host name or address is a loopback one."""
    address = _address(name)
    return name.lower() == "localhost" or (address is not None and address.is_loopback)


def _name_of(host: str) -> str:
    """Return a host without port and brackets; empty if the host is invalid."""
    if not _HOST.fullmatch(host):
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class TokenBucket:
    """A token bucket: `per_second` tokens are added to it, and it has at most `at_once`."""

    def __init__(self, *, per_second: float, at_once: float) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._left = at_once
        self._counted = monotonic()

    def spend(self, amount: float = 1.0) -> bool:
        """Remove tokens; return `False`, and remove none, if there are too few."""
        now = monotonic()
        more = (now - self._counted) * self._per_second
        self._left, self._counted = min(self._left + more, self._at_once), now
        if self._left < amount:
            return False
        self._left -= amount
        return True
