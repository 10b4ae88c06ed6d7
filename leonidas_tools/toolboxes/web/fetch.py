"""Fetch pages of the public web only: each IP address is checked when the connection uses it.

A host name is resolved once for each connection, all its addresses are checked, and the connection
uses one of them. A redirect is checked like the first URL.
"""

from __future__ import annotations

import re
import socket
import ssl
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpcore2
import httpx2

from leonidas_tools.errors import ToolError
from leonidas_tools.files.addresses import is_public
from leonidas_tools.files.certificates import trusted_certificates
from leonidas_tools.files.gradual_reads import GradualReads
from leonidas_tools.results.texts import say
from leonidas_tools.workers.threads import Workers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from leonidas_tools.toolboxes.web.settings import WebSettings

_MAX_REDIRECTS = 5
_MAX_HEADER_LENGTH = 8192
_MAX_PIECES = 20_000
"""Most pieces of a body that are read: a chunk of one byte takes as long as a long one."""
_CONNECT_SECONDS = 5.0
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
_MAX_HOST_LENGTH = 253
_MAX_SHOWN_LENGTH = 200
_CREDENTIALS = re.compile(r"//[^/]*@")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_UNKNOWN_HOST = "unknown_host"
_AGENT = "Mozilla/5.0 (compatible; leonidas-tools)"
_HEADERS = {
    "accept": "text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.8",
    "accept-encoding": "gzip, identity;q=0.5",
    "user-agent": _AGENT,
}

if TYPE_CHECKING:
    Resolve = Callable[[str, int], Awaitable[Collection[str]]]
    """Callback that resolves a host and a port to IP addresses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """The response of a web server."""

    url: str  # the final URL after all redirects
    kind: str  # the media type, in lower case
    charset: str | None
    body: bytes  # the beginning of the body, decompressed
    is_cut: bool  # whether the body is longer


class Fetcher:
    """Fetches pages within the limits of the settings."""

    def __init__(self, settings: WebSettings, resolve: Resolve | None = None) -> None:
        self._most_bytes = settings.max_page_kilobytes * 1024
        # Threads of their own: a name server that does not answer holds one for half a minute, and
        # in the pool of `asyncio.to_thread` it would hold up all sessions.
        self._lookups = Workers(threads=8)
        self._network = _PublicNetwork(settings.allow_private, resolve or self._look_up)
        self._gradual = GradualReads(self._network)
        self._proxy = None if settings.proxy is None else _proxy(settings.proxy)

    async def _look_up(self, host: str, port: int) -> Collection[str]:
        find = socket.getaddrinfo
        infos = await self._lookups.in_thread(find, host, port, type=socket.SOCK_STREAM)
        return dict.fromkeys(str(each[4][0]) for each in infos)

    async def fetch(self, address: str) -> Fetched:
        """Fetch a page; the caller sets a timeout.

        Raises:
            ToolError: The URL is not allowed, or the server does not return the page.
        """
        url = check_address(address)
        for _ in range(_MAX_REDIRECTS + 1):
            found = await self._fetch_one(url)
            if isinstance(found, Fetched):
                return found
            url = found
        raise ToolError(
            say("web_too_many_redirects"), status="failed", reason_code="too_many_redirects"
        )

    async def _fetch_one(self, url: httpx2.URL) -> Fetched | httpx2.URL:
        try:
            async with (
                await self._pool(url) as pool,
                pool.stream("GET", _core_url(url), headers=_request_headers(url)) as response,
            ):
                headers = {
                    name.decode("latin-1").lower(): value.decode("latin-1")[:_MAX_HEADER_LENGTH]
                    for name, value in response.headers
                }
                if response.status in _REDIRECTS and "location" in headers:
                    return check_address(headers["location"], url)
                _check_status(response.status)
                return await self._read(url, headers, response)
        except httpcore2.ConnectError as error:
            cause = error.__cause__ or error.__context__
            is_refused = isinstance(cause, ssl.SSLCertVerificationError)
            raise _certificate_error(url.host) if is_refused else unreachable(url.host) from None
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.ProxyError,
            httpcore2.TimeoutException,
        ):
            raise unreachable(url.host) from None

    async def _pool(self, url: httpx2.URL) -> httpcore2.AsyncConnectionPool:
        """Return a pool that connects to the host, or to a proxy that resolves the host."""
        certificates = await trusted_certificates()
        if self._proxy is None:
            return httpcore2.AsyncConnectionPool(certificates, network_backend=self._gradual)
        try:
            await self._network.addresses(url.raw_host.decode("ascii"), url.port or 443)
        except ToolError as error:
            if error.reason_code != _UNKNOWN_HOST:  # the proxy may resolve it
                raise
        return httpcore2.AsyncConnectionPool(
            certificates, proxy=self._proxy, network_backend=GradualReads(httpcore2.AnyIOBackend())
        )

    async def _read(
        self, url: httpx2.URL, headers: Mapping[str, str], response: httpcore2.Response
    ) -> Fetched:
        kind, charset = _media_type(headers.get("content-type", ""))
        decode = _decoder(headers.get("content-encoding", ""))
        body, pieces, is_cut = bytearray(), 0, False
        async for piece in response.aiter_stream():
            unpacked = decode(piece, self._most_bytes + 1 - len(body))
            if unpacked is None:
                break
            body += unpacked
            pieces += 1
            if len(body) > self._most_bytes or pieces == _MAX_PIECES:
                del body[self._most_bytes :]
                is_cut = True
                break
        return Fetched(url=str(url), kind=kind, charset=charset, body=bytes(body), is_cut=is_cut)


def _proxy(address: str) -> httpcore2.Proxy:
    """Return a proxy, with the user name and password of its URL."""
    named = httpx2.Proxy(address)
    return httpcore2.Proxy(str(named.url), auth=named.raw_auth)


class _PublicNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to public addresses only."""

    def __init__(self, allowed: Iterable[str], resolve: Resolve) -> None:
        self._allowed = frozenset(allowed)
        self._resolve = resolve
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - required by the interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to one address of a host whose addresses are all public, or which is allowed."""
        last: Exception | None = None
        for address in await self.addresses(host, port):
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout or _CONNECT_SECONDS, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last or unreachable(host)

    async def addresses(self, host: str, port: int) -> Collection[str]:
        """Return the addresses of a host, if all of them are allowed."""
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError):
            found = ()
        if not found:
            raise ToolError(
                say("web_unknown_host", host=host),
                status="unavailable",
                retryable=True,
                reason_code=_UNKNOWN_HOST,
            )
        if host.rstrip(".").lower() not in self._allowed and not all(map(is_public, found)):
            raise ToolError(
                say("web_private", host=host), status="denied", reason_code="private_address"
            )
        return found

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        """Refuse, as a Unix socket has no public address."""
        raise httpcore2.ConnectError("no socket of this machine")

    async def sleep(self, seconds: float) -> None:
        """Sleep, as the interface requires."""
        await self._inner.sleep(seconds)


def check_address(address: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """Return a web URL without its fragment.

    Raises:
        ToolError: The address is not a web URL, or has a user name or password.
    """
    try:
        url = httpx2.URL(address) if base is None else base.join(address)
        is_web = (
            url.scheme in ("http", "https")
            and _is_host(url.raw_host.decode("ascii").lower())
            and not url.userinfo
            and (url.port is None or url.port in range(1, 65536))
        )
    except (httpx2.InvalidURL, ValueError, TypeError):
        is_web = False
    if not is_web:
        raise ToolError(
            say(
                "web_wrong_address", address=_CREDENTIALS.sub("//***@", address[:_MAX_SHOWN_LENGTH])
            ),
            status="invalid_argument",
            reason_code="wrong_address",
        )
    return url.copy_with(fragment=None)


def _is_host(host: str) -> bool:
    if ":" in host:
        return "%" not in host  # a zone id names an interface of this machine
    return len(host) <= _MAX_HOST_LENGTH and _HOST.fullmatch(host) is not None


def _certificate_error(host: str) -> ToolError:
    message = say("web_certificate", host=host)
    return ToolError(message, status="unavailable", reason_code="certificate")


def unreachable(host: str) -> ToolError:
    """Return the error for a server that does not respond."""
    return ToolError(
        say("web_unreachable", host=host),
        status="unavailable",
        retryable=True,
        reason_code="unreachable",
    )


def _core_url(url: httpx2.URL) -> httpcore2.URL:
    return httpcore2.URL(
        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
    )


def _request_headers(url: httpx2.URL) -> list[tuple[bytes, bytes]]:
    headers = {"host": url.netloc.decode("ascii"), **_HEADERS}
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _check_status(status: int) -> None:
    if status in (404, 410):
        raise ToolError(say("web_no_page"), status="not_found", reason_code=f"http_{status}")
    if not 200 <= status < 300:  # noqa: PLR2004 - HTTP status codes
        raise ToolError(
            say("web_refused", status=status),
            status="unavailable",
            retryable=status == 429 or status >= 500,  # noqa: PLR2004 - HTTP status codes
            reason_code=f"http_{status}",
        )


def _media_type(text: str) -> tuple[str, str | None]:
    kind, *parameters = text.split(";")
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip().lower() == "charset":
            return kind.strip().lower(), value.strip().strip("\"'") or None
    return kind.strip().lower(), None


def _decoder(coding: str) -> Callable[[bytes, int], bytes | None]:
    """Return a callback that decompresses a piece of the body to at most N bytes.

    It returns `None` once the compressed data has ended: what follows would be kept in memory.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return lambda piece, most: piece[:most]
    if coding not in ("gzip", "x-gzip"):
        raise _undecodable(coding)
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def decode(piece: bytes, most: int) -> bytes | None:
        if stream.eof:
            return None
        try:
            return stream.decompress(piece, most)
        except zlib.error:
            raise _undecodable(coding) from None

    return decode


def _undecodable(coding: str) -> ToolError:
    return ToolError(
        say("web_undecodable", coding=coding[:40]), status="failed", reason_code="undecodable"
    )
