"""Mask secrets in addresses: a host is never secret, a path or a query may be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from leonidas_tools.redaction.text import MASK

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAID_BY_MANY = re.compile(
    r"|[a-z]{1,3}|v\d{1,3}|http|https|public|server|servers|service|services|messages?"
    r"|streams?|tools?|apps?|connect|login|auth|oauth2?|oidc|token|authorize|authorization|register"
    r"|revoke|callback|\.well-known|oauth-authorization-server|oauth-protected-resource"
    r"|openid-configuration|\$\{\w+\}"
)
"""Common path segments; any other segment may be a key."""
_PLAIN_WORDS = re.compile(r"[a-z]{1,11}([-_][a-z]{1,11}){0,3}")


def shown_path(path: str) -> str:
    """Return the path of an address, with each segment masked that may be a key.

    Example:
        >>> shown_path("/api/mcp/s/MGQ2ZjYt/sse"), shown_path("/v1/mcp"), shown_path("")
        ('/api/mcp/s/***/sse', '/v1/mcp', '')
    """
    return "/".join(
        step if _SAID_BY_MANY.fullmatch(step) else MASK
        for step in path.partition(";")[0].split("/")
    )


def shown_place(url: str) -> str:
    """Return an address without user, password and query; mask segments that may be keys.

    Example:
        >>> shown_place("https://me:pw@host:8443/mcp?key=s3cret")
        'https://host:8443/mcp'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{shown_path(parts.path)}"


def secrets_of_path(url: str) -> Iterator[str]:
    """Yield the segments of an address's path that may be keys, to be masked everywhere.

    Plain words are left out, since they occur in any text.

    Example:
        >>> list(secrets_of_path("https://host/weather/s/MGQ2ZjYt/mcp"))
        ['MGQ2ZjYt']
    """
    for step in re.split("[/;]", urlsplit(url).path):
        if not _SAID_BY_MANY.fullmatch(step) and not _PLAIN_WORDS.fullmatch(step):
            yield step
            if (plain := unquote(step)) != step:
                yield plain
