"""Keep what is asked of web services out of the log of the HTTP client."""

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
    """Have `httpx2` log none of the requests that are made here; those of others it logs.

    It logs each address at INFO, and at DEBUG where a server redirects to: a query has arguments of
    a call in it, and the address of a webhook is secret by itself.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_logged)  # once: it is the same one
    token = _is_unlogged.set(True)
    try:
        yield
    finally:
        _is_unlogged.reset(token)


def _is_logged(_: logging.LogRecord) -> bool:
    return not _is_unlogged.get()
