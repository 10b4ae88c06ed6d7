"""Takes secrets out of what a server says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.redaction import KnownSecrets, redact_text

if TYPE_CHECKING:
    from leonidas_tools.settings.models import MCPServerSettings


class ServerRedaction:
    """Masks a server's environment, headers and credentials in a text, and what looks so.

    Args:
        settings: The server's settings.

    Example:
        >>> from leonidas_tools.settings.models import MCPServerSettings
        >>> redact = ServerRedaction(MCPServerSettings(url="http://host/mcp?key=s3cret"))
        >>> redact("401 for http://host/mcp?key=s3cret")
        '401 for http://host/mcp?key=***'
    """

    def __init__(self, settings: MCPServerSettings) -> None:
        self._known = KnownSecrets([*settings.env.values(), *settings.credentials()])

    def learn(self, secret: str) -> None:
        """Mask one more text from now on, such as a token that has come."""
        if secret not in self._known.texts:
            self._known = KnownSecrets([*self._known.texts, secret])

    def __call__(self, text: str) -> str:
        """Return the text without secrets; one without any keeps the key to reword it by."""
        shown = redact_text(self._known.text(text))
        return text if shown == text else shown
