"""The status of the store."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreStatus:
    """The status of the store.

    Args:
        where: The database, without a password.
        ok: Whether what happens is kept.
        error: Why not, if not.
        waiting: Calls that wait to be written.
        waiting_bytes: How much the calls hold that wait or may have to.
        written: Calls whose start or end was written.
        dropped: Calls that there was no room for.
        cut: Calls whose results there was no room for.
        refused: Calls that the database would not take.
        not_durable: Calls that were to be on disk before they ran, and were not; with
            `unwritable: refuse` they did not run.
        records_waiting: Questions and answers, task lists and long results that wait to be
            written.
        records_dropped: Those that there was no room for, or that the database would not take.
        set_aside: Where a file was moved that could not be read.
        lost: What became of a file that was removed or replaced while it was open.
    """

    where: str
    ok: bool
    error: str | None
    waiting: int
    waiting_bytes: int
    written: int
    dropped: int
    cut: int
    refused: int
    not_durable: int
    records_waiting: int
    records_dropped: int
    set_aside: str | None
    lost: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the status as plain JSON."""
        return asdict(self)
