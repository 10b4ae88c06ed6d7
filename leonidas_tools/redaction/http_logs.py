"""Keep the addresses of requests out of the log of the HTTP client."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOGGERS = (
    "httpx2",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
)
_is_unlogged: ContextVar[bool] = ContextVar("leonidas_tools_is_unlogged", default=False)


@contextmanager
def unlogged_requests() -> Iterator[None]:
    """Keep requests inside this context out of the log of `httpx2`; other requests are logged.

    `httpx2` logs each address at INFO, and targets of redirects at DEBUG. A query has arguments of
    a call in it, and the address of a webhook is itself a secret.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_logged)  # once: `logging` ignores a second time
    token = _is_unlogged.set(True)
    try:
        yield
    finally:
        _is_unlogged.reset(token)


def _is_logged(_: logging.LogRecord) -> bool:
    return not _is_unlogged.get()
