"""The history of the last calls, without their arguments and results."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, TypeAlias

from leonidas_tools.calls.call import ResultStatus, validate_status
from leonidas_tools.calls.events import EventKind, ToolEvent

_RETRY = EventKind.RETRY
_MAX_NAME_LENGTH = 128
"""Longer names are truncated, since a model may invent any name."""
_MAX_RETRYING = 10_000
"""The number of calls with counted retries; only calls that never end could reach it."""

_Row: TypeAlias = tuple[
    str, str | None, str, int, ResultStatus, float | None, float, str | None, int
]


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedCall:
    """One ended call; `at` is its end in seconds since the epoch."""

    tool: str
    call_id: str | None
    session: str
    trace_id: str
    status: ResultStatus
    seconds: float | None
    at: float
    reason_code: str | None
    attempts: int

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON."""
        return {**asdict(self), "status": self.status.value}


class History:
    """Keeps the last `size` ended calls."""

    __slots__ = ("_attempts", "_rows")

    def __init__(self, size: int = 1000) -> None:
        # Rows are plain tuples: a dataclass costs twenty times as much, and few are ever read.
        self._rows: deque[_Row] = deque(maxlen=size)
        self._attempts: dict[str, int] = {}

    def __call__(self, event: ToolEvent) -> None:
        """Record an ended call, or a retry."""
        if event.result is not None:
            self._end(event)
        elif event.kind is _RETRY:
            self._retry(event)

    def __len__(self) -> int:
        return len(self._rows)

    def resize(self, size: int) -> None:
        """Change the number of calls to keep; the newest stay."""
        if size != self._rows.maxlen:
            self._rows = deque(self._rows, maxlen=size)

    def query(
        self,
        *,
        tool: str | None = None,
        status: ResultStatus | str | None = None,
        session: str | None = None,
        since: float | None = None,
        limit: int | None = 100,
    ) -> list[EndedCall]:
        """Return the matching calls, the newest first, and raise for an unknown status."""
        wanted = None if status is None else validate_status(status)
        found = (
            _record(row)
            for row in reversed(self._rows.copy())  # another thread may be appending
            if (tool is None or row[0] == tool)
            and (wanted is None or row[4] == wanted)
            and (session is None or row[2] == session)
            and (since is None or row[6] >= since)
        )
        return list(islice(found, limit))

    def _end(self, event: ToolEvent) -> None:
        call, result = event.call, event.result
        assert result is not None
        session = call.session.id
        attempts = self._attempts.pop(call.trace_id, 1) if self._attempts else 1
        name = call.name if call.tool is not None else call.name[:_MAX_NAME_LENGTH]
        self._rows.append(
            (
                name,
                call.id,
                session,
                call.number,
                result.status,
                event.seconds,
                event.at,
                result.reason_code,
                attempts,
            )
        )

    def _retry(self, event: ToolEvent) -> None:
        trace_id = event.call.trace_id
        self._attempts[trace_id] = self._attempts.get(trace_id, 1) + 1
        if len(self._attempts) > _MAX_RETRYING:
            del self._attempts[next(iter(self._attempts))]


def _record(row: _Row) -> EndedCall:
    tool, call_id, session, number, status, seconds, at, reason_code, attempts = row
    return EndedCall(
        tool=tool,
        call_id=call_id,
        session=session,
        trace_id=f"{session}-{number}",
        status=status,
        seconds=seconds,
        at=at,
        reason_code=reason_code,
        attempts=attempts,
    )
