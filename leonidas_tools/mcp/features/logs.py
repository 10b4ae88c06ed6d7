"""Log the messages of a server: at a limited rate, in one line, without secrets."""

from __future__ import annotations

import json
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import mcp_types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from leonidas_tools.calls.last_minute import LastMinute
from leonidas_tools.mcp.transport.redaction import ServerRedaction
from leonidas_tools.redaction import redact
from leonidas_tools.redaction.visible import visible, visible_logger
from leonidas_tools.results.plain import NotPlainError, plain

if TYPE_CHECKING:
    from mcp.client.client import Client

    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)

_NAME = "leonidas_tools.mcp.server"
_MAX_PER_MINUTE = 600
_MAX_TEXT_LENGTH = 2000
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


async def ask_for_logs(client: Client, level: str) -> None:
    """Set the log level of a server of the older protocol; newer ones get it with each request."""
    wanted = level != "off" and client.server_capabilities.logging is not None
    if not wanted or client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return
    params = mcp_types.SetLevelRequestParams(level=cast("mcp_types.LoggingLevel", level))
    try:
        await client.session.send_request(
            mcp_types.SetLevelRequest(params=params), mcp_types.EmptyResult
        )
    except (MCPError, ValidationError) as error:
        logger.info("Could not set the log level of the server: %s", type(error).__name__)


class ServerLog:
    """Logs the messages of a server to its own logger, `leonidas_tools.mcp.server.NAME`."""

    def __init__(self, server: str, settings: MCPServerSettings) -> None:
        self._server = server
        self._redact = ServerRedaction(settings)
        self._logger = visible_logger(f"{_NAME}.{visible(server)}")
        self._least = _LEVELS.get(settings.log_level, logging.WARNING)
        self._logged = LastMinute()
        self._dropped = 0

    async def __call__(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Log one message."""
        level = _LEVELS[params.level]
        if level < self._least or not self._logger.isEnabledFor(level):
            return
        if not self._logged.admits(_MAX_PER_MINUTE, monotonic()):
            self._drop()
            return
        if self._dropped:
            self._logger.warning("%d messages of the server were dropped", self._dropped)
            self._dropped = 0
        said = self._redact.cut(self._text(params.data), _MAX_TEXT_LENGTH)
        place = (
            f"{_line(self._redact.cut(params.logger, _MAX_TEXT_LENGTH))}: " if params.logger else ""
        )
        self._logger.log(level, "%s%s", place, _line(said))

    def _text(self, data: Any) -> str:
        if isinstance(data, str):
            return data
        try:
            shown, _ = plain(data, 2 * _MAX_TEXT_LENGTH, mask=self._redact.known)
        except NotPlainError as error:
            return str(error)
        return json.dumps(redact(shown), ensure_ascii=False)

    def _drop(self) -> None:
        if not self._dropped:
            self._logger.warning(
                "The MCP server %r logs more than %d messages a minute: the rest is dropped",
                self._server,
                _MAX_PER_MINUTE,
            )
        self._dropped += 1


def _line(text: str) -> str:
    r"""Return a text in one line, with escapes for characters that are not printable.

    Example:
        >>> _line("done\n\x1b[31m")
        'done\\n\\x1b[31m'
    """
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
