"""Read from the network in small pieces, so that no server holds up the event loop.

An HTTP client parses all that it reads at once before the event loop has its next turn. In the
64 KiB that it reads by default, a hostile server can send ten thousand chunks of one byte, or
thousands of informational responses: parsing them takes up to a second.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpcore2
import httpx2

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

_PIECE_BYTES = 4096


class GradualReads(httpcore2.AsyncNetworkBackend):
    """Connects by another backend, and reads small pieces, with a turn of the loop before each."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - required by the interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a host."""
        return _Gradual(
            await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        )

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - required by the interface
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a Unix socket."""
        return _Gradual(await self._inner.connect_unix_socket(path, timeout, socket_options))

    async def sleep(self, seconds: float) -> None:
        """Sleep, as the interface requires."""
        await self._inner.sleep(seconds)


class _Gradual(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        await asyncio.sleep(0)  # TLS returns what it has decrypted at once
        return await self._inner.read(min(max_bytes, _PIECE_BYTES), timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - required by the interface
    ) -> httpcore2.AsyncNetworkStream:
        return _Gradual(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def read_gradually(client: httpx2.AsyncClient) -> None:
    """Make a new client read small pieces, also through the proxies of the environment."""
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001 - not public
        if isinstance(transport, httpx2.AsyncHTTPTransport):
            pool = transport._pool  # noqa: SLF001 - httpx2 takes no backend
            pool._network_backend = GradualReads(pool._network_backend)  # noqa: SLF001 - as above
