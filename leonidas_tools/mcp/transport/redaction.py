"""Mask secrets in texts about a server, and the tokens of its login in all its messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from leonidas_tools.redaction import MASK, KnownSecrets, redact_text
from leonidas_tools.results.texts import shorten

if TYPE_CHECKING:
    from leonidas_tools.settings.models import MCPServerSettings

_MIN_TOKEN_LENGTH = 8
_MAX_TOKENS = 8
_MAX_LEARNED = 262_144
"""Most characters of received secrets: a microsecond each is needed when another is received."""


class ServerRedaction:
    """Masks a server's environment, headers and credentials in a text, and likely secrets.

    Example:
        >>> from leonidas_tools.settings.models import MCPServerSettings
        >>> redact = ServerRedaction(MCPServerSettings(url="http://host/mcp?key=s3cret"))
        >>> redact("401 for http://host/mcp?key=s3cret")
        '401 for http://host/mcp?key=***'
    """

    def __init__(self, settings: MCPServerSettings) -> None:
        self._known = KnownSecrets([*settings.env.values(), *settings.credentials()])
        self._own = self._known.texts
        self._learned: tuple[str, ...] = ()
        self._tokens: tuple[str, ...] = ()

    def learn(self, secret: str) -> None:
        """Mask another text from now on, such as a received token, and no longer very old ones."""
        if secret not in self._own:
            others = [each for each in self._learned if each != secret]
            while others and len(secret) + sum(map(len, others)) > _MAX_LEARNED:
                del others[0]
            is_new = secret not in self._known.texts
            self._learned = (*others, secret)
            if is_new:
                self._known = KnownSecrets([*self._own, *self._learned])
        if len(secret) >= _MIN_TOKEN_LENGTH and secret not in self._tokens:
            self._tokens = (*self._tokens, secret)[-_MAX_TOKENS:]

    def without_tokens(self, value: Any) -> Any:
        """Return plain JSON in which the received tokens are masked.

        The masking of calls covers only the settings, which contain no tokens. A token is searched
        for verbatim: a server that returns a token does so in a copy of the request.
        """
        if not self._tokens:
            return value
        text = json.dumps(value)  # most responses contain no token, and this is much faster
        tokens = [each for each in self._tokens if json.dumps(each)[1:-1] in text]
        return _mask_tokens(tokens, value) if tokens else value

    @property
    def known(self) -> KnownSecrets:
        """Return the secrets that are known now."""
        return self._known

    def cut(self, text: str, longest: int) -> str:
        """Return the beginning of a text without secrets; a secret at the cut is masked too."""
        return redact_text(shorten(self._known.text(text), longest))

    def __call__(self, text: str) -> str:
        """Return the text without secrets; a text that has none keeps its message key."""
        shown = redact_text(self._known.text(text))
        return text if shown == text else shown


def _mask_tokens(tokens: list[str], value: Any) -> Any:
    if isinstance(value, str):
        for token in tokens:
            value = value.replace(token, MASK)
    elif isinstance(value, dict):
        return {
            _mask_tokens(tokens, key): _mask_tokens(tokens, each) for key, each in value.items()
        }
    elif isinstance(value, list):
        return [_mask_tokens(tokens, each) for each in value]
    return value
