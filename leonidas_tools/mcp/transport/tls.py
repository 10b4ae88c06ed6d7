"""TLS certificates of servers: trusted authorities, and reasons for failures."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.certificates import trusted_certificates
from leonidas_tools.files.reading import open_file

if TYPE_CHECKING:
    from leonidas_tools.settings.mcp_settings import MCPServerSettings

_UNTRUSTED = "its certificate is signed by an unknown authority; name its certificate in `ca_file`"
_WRONG_HOST = "its certificate is for another host"
_BY_CODE = {  # by the error codes of OpenSSL
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    18: "its certificate is self-signed; name it in `ca_file` if it is the right one",
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    21: _UNTRUSTED,
    62: _WRONG_HOST,
    64: _WRONG_HOST,
}


async def tls_context(settings: MCPServerSettings) -> ssl.SSLContext:
    """Return a context that trusts the system's certificates and those of `ca_file`.

    Raises:
        ConfigurationError: The file cannot be read, or contains no certificate.
    """
    if settings.ca_file is None:
        return await trusted_certificates()
    return await asyncio.to_thread(_context, settings.ca_file)


def _context(ca_file: str) -> ssl.SSLContext:
    context = httpx2.create_ssl_context()
    try:
        open_file(Path(ca_file)).close()  # the call below would wait forever on a FIFO
        context.load_verify_locations(cafile=ca_file)
    except FileNotFoundError:
        raise ConfigurationError(f"the ca_file {ca_file!r} was not found") from None
    except ssl.SSLError:
        raise ConfigurationError(f"the ca_file {ca_file!r} contains no PEM certificate") from None
    except OSError as error:
        why = error.strerror or error
        raise ConfigurationError(f"the ca_file {ca_file!r} cannot be read: {why}") from None
    return context


def tls_reason(error: ssl.SSLError) -> str:
    """Return a short reason for a failed TLS connection.

    Example:
        >>> tls_reason(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"))
        'it does not speak TLS; should the url begin with http://?'
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _BY_CODE.get(
            error.verify_code, f"its certificate is not accepted: {error.verify_message}"
        )
    text = str(error)
    if any(word in text for word in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")):
        return "it does not speak TLS; should the url begin with http://?"
    if any(word in text for word in ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")):
        return "it rejected the TLS handshake; it may require a client certificate"
    return "the TLS connection could not be established"
