"""Why a conversation ends, as a WebSocket says it."""

from __future__ import annotations

from typing import Final

ENDED: Final = 1000
UNSUPPORTED: Final = 1003
REFUSED: Final = 1008
FAILED: Final = 1011
RESTARTING: Final = 1012
BUSY: Final = 1013


class CloseError(Exception):
    """Raised to end a conversation for a reason that the client is told.

    Args:
        code: The close code.
        why: A word for the metrics.
        reason: The reason, at most 123 bytes.
    """

    def __init__(self, code: int, why: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.why = why
        self.reason = reason
