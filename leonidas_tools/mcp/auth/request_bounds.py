"""Limits of a login's requests to other hosts: their targets, and their responses."""

from __future__ import annotations

import asyncio
import enum
import ipaddress
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from leonidas_tools.files.addresses import embedded_addresses, is_public, serves_credentials
from leonidas_tools.mcp.auth.failures import LoginError
from leonidas_tools.redaction.addresses import shown_place

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from leonidas_tools.files.addresses import Address

_ANSWER_SECONDS = 30.0
_MAX_ANSWER_BYTES = 128 * 1024
"""Most bytes of a response: a token is masked, and the event loop prepares that for all of it."""
_MAX_REDIRECTS = 5


class _Reach(enum.IntEnum):
    """The closeness of an address to this machine; a server may not lead to a closer one."""

    PUBLIC = 0
    PRIVATE = 1
    LOOPBACK = 2
    LINK_LOCAL = 3
    """Addresses at which clouds serve the credentials of a machine."""


class OAuthRequestBounds:
    """Limits the requests that result from a server's metadata.

    The metadata is untrusted: it could direct requests to addresses that only this machine reaches,
    or tokens over a connection that is not encrypted.

    The issuer of the settings is trusted like the server's own address.
    """

    def __init__(self, server: str, issuer: str | None) -> None:
        self._server = server
        self._trusted = {_place(url) for url in (server, issuer) if url}

    async def check(self, url: str) -> None:
        """Check that a login may send requests to an address.

        Raises:
            LoginError: The address is not encrypted, or closer to this machine than the server.
        """
        place = _place(url)
        if place in self._trusted:
            return
        reach = await _reach_of(url)
        if place[0] != "https" and reach is not _Reach.LOOPBACK:
            raise LoginError(
                f"its login leads to {shown_place(url)!r}, which is not encrypted; if that is "
                "right, set `issuer` under `auth`"
            )
        if reach > await _reach_of(self._server) or reach is _Reach.LINK_LOCAL:
            raise LoginError(
                f"its login leads to {shown_place(url)!r}, an address inside this machine's "
                "network; if that is right, set `issuer` under `auth`"
            )

    async def bounded(
        self, flow: AsyncGenerator[httpx2.Request, httpx2.Response], request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Check and yield the requests of a login, and read their responses.

        Raises:
            LoginError: A request is not allowed, or its response is too long or too slow.
        """
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is not request:
                    await self.check(str(outgoing.url))
                    # The library sets no timeout for such a request.
                    outgoing.extensions["timeout"] = httpx2.Timeout(_ANSWER_SECONDS).as_dict()
                response = yield outgoing
                if outgoing is not request or response.status_code in _WANTING:
                    await _read(response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except httpx2.InvalidURL:
            raise LoginError("its login leads to an invalid URL") from None
        finally:
            await flow.aclose()

    async def send(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Check and send a token request, and return its response with the body.

        Redirects are followed only within the origin, because the request contains a token.

        Raises:
            LoginError: The request is not allowed, or its response is too long or too slow.
        """
        for _ in range(_MAX_REDIRECTS):
            await self.check(str(request.url))
            response = await client.send(request, stream=True)
            await _read(response)
            following = response.next_request
            if following is None or following.method != request.method or leads_away(response):
                break
            request = following
        return response


def leads_away(response: httpx2.Response) -> bool:
    """Return whether a response redirects to another origin, which must not get the request."""
    following = response.next_request
    if following is None:
        return False
    here, there = response.request.url, following.url
    if here.scheme == "http" and there.scheme == "https" and here.port is there.port is None:
        return here.host != there.host
    return (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port)


_WANTING = {httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN}
"""Statuses after which a login starts; the library first reads the whole response."""


async def _read(response: httpx2.Response) -> None:
    """Read the whole body of a response, within limits of time and length."""
    body, place = bytearray(), shown_place(str(response.request.url))
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_ANSWER_BYTES:
                    raise LoginError(
                        f"{place!r} answered its login with more than {_MAX_ANSWER_BYTES:,} bytes"
                    )
    except TimeoutError:
        raise LoginError(
            f"{place!r} did not finish its answer within {_ANSWER_SECONDS:g} s"
        ) from None
    except httpx2.DecodingError:
        raise LoginError(f"{place!r} sent a login response that cannot be decoded") from None
    response.encoding = "utf-8"  # another encoding may take hours to decode
    response._content = bytes(body)  # noqa: SLF001 - the library itself reads without a limit


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), (parts.hostname or "").rstrip(".")


async def _reach_of(url: str) -> _Reach:
    """Return the closeness of a host's closest address; an unknown name counts as public."""
    scheme, host = _place(url)
    if host == "localhost" or host.endswith(".localhost"):
        return _Reach.LOOPBACK
    try:
        return _reach(host)
    except ValueError:
        pass
    if getproxies().get(scheme) and not proxy_bypass(host):
        return _Reach.PUBLIC  # the proxy resolves the name, in its own network
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return _Reach.PUBLIC
    return max((_reach(str(each[4][0]).partition("%")[0]) for each in infos), default=_Reach.PUBLIC)


def _reach(text: str) -> _Reach:
    return max(map(_reach_of_address, embedded_addresses(ipaddress.ip_address(text))))


def _reach_of_address(address: Address) -> _Reach:
    if serves_credentials(address):
        return _Reach.LINK_LOCAL
    if address.is_loopback or address.is_unspecified:
        return _Reach.LOOPBACK
    return _Reach.PUBLIC if is_public(str(address)) else _Reach.PRIVATE
