"""The close codes of a conversation, and the error that ends it."""

from __future__ import annotations

from typing import Final

ENDED: Final = 1000
LEAVING: Final = 1001
UNSUPPORTED: Final = 1003
REFUSED: Final = 1008
FAILED: Final = 1011
RESTARTING: Final = 1012
BUSY: Final = 1013


class CloseError(Exception):
    """Raised to end a conversation; the client receives the code and the reason.

    Args:
        code: The close code.
        why: The reason as a label of the metrics.
        reason: The reason, at most 123 bytes.
    """

    def __init__(self, code: int, why: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.why = why
        self.reason = reason
