"""Takes secrets out of what a server says about itself, and the tokens of its login everywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from leonidas_tools.redaction import MASK, KnownSecrets, redact_text

if TYPE_CHECKING:
    from leonidas_tools.settings.models import MCPServerSettings

_SHORTEST_TOKEN = 8
_MOST_TOKENS = 8


class ServerRedaction:
    """Masks a server's environment, headers and credentials in a text, and what looks so.

    Example:
        >>> from leonidas_tools.settings.models import MCPServerSettings
        >>> redact = ServerRedaction(MCPServerSettings(url="http://host/mcp?key=s3cret"))
        >>> redact("401 for http://host/mcp?key=s3cret")
        '401 for http://host/mcp?key=***'
    """

    def __init__(self, settings: MCPServerSettings) -> None:
        self._known = KnownSecrets([*settings.env.values(), *settings.credentials()])
        self._tokens: tuple[str, ...] = ()

    def learn(self, secret: str) -> None:
        """Mask one more text from now on, such as a token that has come."""
        if secret not in self._known.texts:
            self._known = KnownSecrets([*self._known.texts, secret])
        if len(secret) >= _SHORTEST_TOKEN and secret not in self._tokens:
            self._tokens = (*self._tokens, secret)[-_MOST_TOKENS:]

    def without_tokens(self, value: Any) -> Any:
        """Return plain JSON in which the tokens that have come are masked.

        The masking of calls knows the settings only, and a token is in none of them. It is looked
        for as it is: a server that hands it back does so in a copy of the request.
        """
        if not self._tokens:
            return value
        text = json.dumps(value)  # most answers have none, and this is much faster
        tokens = [each for each in self._tokens if json.dumps(each)[1:-1] in text]
        return _without(tokens, value) if tokens else value

    def __call__(self, text: str) -> str:
        """Return the text without secrets; one without any keeps the key to reword it by."""
        shown = redact_text(self._known.text(text))
        return text if shown == text else shown


def _without(tokens: list[str], value: Any) -> Any:
    if isinstance(value, str):
        for token in tokens:
            value = value.replace(token, MASK)
    elif isinstance(value, dict):
        return {_without(tokens, key): _without(tokens, each) for key, each in value.items()}
    elif isinstance(value, list):
        return [_without(tokens, each) for each in value]
    return value
