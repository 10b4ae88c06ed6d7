"""The certificates that the system trusts."""

from __future__ import annotations

import asyncio
import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

_NAMING_THEM = ("SSL_CERT_FILE", "SSL_CERT_DIR")


async def trusted_certificates() -> ssl.SSLContext:
    """Return a TLS context with the trust store of the system, shared by all HTTP clients.

    Reading the certificates takes tens of milliseconds, so a thread reads them, once. An HTTP
    client without its own context reads them in the event loop, for each connection.
    """
    return await asyncio.to_thread(_read, *map(os.environ.get, _NAMING_THEM))


@functools.cache
def _read(*_named: str | None) -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context()
