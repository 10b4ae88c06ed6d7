"""Mask secrets in texts about a server, in its messages, and in the logs of transport libraries."""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from leonidas_tools.calls.last_minute import LastMinute
from leonidas_tools.redaction import MASK, KnownSecrets, described, redact_text
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)

_MAX_PER_MINUTE = 60
_LOGGERS = (
    "client",  # the logger of `mcp.client.session`
    "mcp.client.auth.oauth2",
    "mcp.client.auth.utils",
    "mcp.client.client",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "httpx2",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
)
"""The loggers of the libraries: a filter applies only to the logger that it is added to."""

_OF_LOGINS = "mcp.client.auth."
"""Prefix of loggers whose records are dropped: errors report the same, without codes and states."""
_MIN_TOKEN_LENGTH = 8
_MAX_TOKENS = 32
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
        self.add_token(secret)

    def add_token(self, token: str) -> None:
        """Mask a token verbatim from now on; unlike `learn`, this is fast enough for each call."""
        if len(token) >= _MIN_TOKEN_LENGTH and token not in self._tokens:
            self._tokens = (*self._tokens, token)[-_MAX_TOKENS:]

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
        masked = self._known.text(_mask_tokens(list(self._tokens), text))
        return redact_text(shorten(masked, longest))

    def __call__(self, text: str) -> str:
        """Return the text without secrets; a text that has none keeps its message key."""
        shown = redact_text(self._known.text(_mask_tokens(list(self._tokens), text)))
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


class _WireLogFilter(logging.Filter):
    """Drops records with whole messages, masks secrets in the others, and limits warnings."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact
        self._logged = LastMinute()
        self._drops = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged."""
        if record.levelno < logging.INFO or record.name.startswith(_OF_LOGINS):
            return False
        if record.levelno >= logging.WARNING and not self._admits():
            return False
        text = self._redact(record.getMessage())
        error = record.exc_info[1] if record.exc_info else None
        record.msg = text if error is None else f"{text}: {described(error)}"
        record.args = record.exc_info = record.exc_text = None
        return True

    def _admits(self) -> bool:
        """Return whether to log one more warning: a server may cause any number."""
        drops, self._drops = self._drops, not self._logged.admits(_MAX_PER_MINUTE, monotonic())
        if self._drops and not drops:
            logger.warning(
                "MCP servers cause more than %d warnings a minute: the rest is dropped",
                _MAX_PER_MINUTE,
            )
        return not self._drops


@contextmanager
def discreet_logs(redact: Callable[[str], str]) -> Iterator[None]:
    """Keep a server's secrets and messages out of other libraries' logs, inside `with`."""
    log_filter, loggers = _WireLogFilter(redact), [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(log_filter)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(log_filter)
