"""Filter logs of transport libraries, which contain addresses and messages with arguments."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from leonidas_tools.calls.last_minute import LastMinute
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
