"""Takes secrets out of what a server says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from leonidas_tools.redaction import MASK, redact_text
from leonidas_tools.settings.shown import without_secret_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.settings.models import MCPServerSettings

_SHORTEST_SECRET = 4
"""Shorter values, such as `1` or `on`, keep nothing secret and occur in any text."""


class Redaction:
    """Masks a server's environment, headers and credentials in a text, and what looks so.

    Args:
        settings: The server's settings.

    Example:
        >>> from leonidas_tools.settings.models import MCPServerSettings
        >>> redact = Redaction(MCPServerSettings(url="http://host/mcp?key=s3cret"))
        >>> redact("401 for http://host/mcp?key=s3cret")
        '401 for http://host/mcp?key=***'
    """

    def __init__(self, settings: MCPServerSettings) -> None:
        self._secrets: list[str] = []
        for text in _secrets(settings):
            self.learn(text)

    def learn(self, secret: str) -> None:
        """Masks one more text from now on, such as a token that has come."""
        if len(secret) >= _SHORTEST_SECRET and secret not in self._secrets:
            self._secrets.append(secret)
            self._secrets.sort(key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return redact_text(text)


def _secrets(settings: MCPServerSettings) -> Iterator[str]:
    yield from settings.env.values()
    masked = without_secret_options(settings.args)
    for argument, shown in zip(settings.args, masked, strict=True):
        if shown == MASK:
            yield argument
        elif shown != argument:
            yield argument.partition("=")[2]
    for value in settings.headers.values():
        yield value
        yield value.rpartition(" ")[2]  # without `Bearer`
    if settings.auth is not None and settings.auth.client_secret is not None:
        yield settings.auth.client_secret
    if settings.url is not None:
        url = urlsplit(settings.url)
        yield from (text for text in (url.username, url.password) if text)
        yield from (value for _, value in parse_qsl(url.query))


def place(url: str) -> str:
    """Where a URL leads, without what may be secret in it.

    Example:
        >>> place("https://me:pw@host:8443/mcp?key=s3cret")
        'https://host:8443/mcp'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
