"""The history: how the last calls ended, without their arguments and results."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.call import ResultStatus, known_status
from leonidas_tools.calls.events import EventKind, ToolEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

_RETRY = EventKind.RETRY
_LONGEST_NAME = 128
"""A longer name is cut: a model may write any length."""
_MOST_RETRYING = 10_000
"""Calls whose retries are counted at once; only calls that never end could reach it."""

_Row: TypeAlias = tuple[
    str, str | None, str, int, ResultStatus, float | None, float, str | None, int
]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRecord:
    """The end of one call.

    Args:
        tool: The tool's name.
        call_id: The id the answer carried, where the server gave one.
        session: The id of its conversation.
        trace_id: Names the call in events and logs.
        status: How it ended.
        seconds: How long it took.
        at: When it ended, in seconds since the epoch.
        reason_code: A short word for programs, where the result has one.
        attempts: How often it was tried.
    """

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
    """Keeps how the last calls ended, in a ring.

    Args:
        size: How many calls are kept.
    """

    __slots__ = ("_attempts", "_rows")

    def __init__(self, size: int = 1000) -> None:
        # Rows are plain tuples: a record costs twenty times as much, and few are ever asked for.
        self._rows: deque[_Row] = deque(maxlen=size)
        self._attempts: dict[str, int] = {}

    def __call__(self, event: ToolEvent) -> None:
        """Keep how a call ended."""
        if event.result is not None:
            self._end(event)
        elif event.kind is _RETRY:
            self._retry(event)

    def __len__(self) -> int:
        return len(self._rows)

    def resize(self, size: int) -> None:
        """Keep so many calls from now on; the newest stay."""
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
    ) -> list[CallRecord]:
        """Return the last calls, the newest first.

        Args:
            tool: Only those of this tool.
            status: Only those that ended so.
            session: Only those of this conversation.
            since: Only those that ended at this time or later, in seconds since the epoch.
            limit: How many at most; `None` for all.

        Raises:
            ToolValidationError: There is no such status; the error lists the known ones.
        """
        wanted = None if status is None else known_status(status)
        found = (
            _record(row)
            for row in self._newest_first()
            if (tool is None or row[0] == tool)
            and (wanted is None or row[4] == wanted)
            and (session is None or row[2] == session)
            and (since is None or row[6] >= since)
        )
        return list(islice(found, limit))

    def _newest_first(self) -> Iterator[_Row]:
        return reversed(self._rows.copy())  # another thread may be appending

    def _end(self, event: ToolEvent) -> None:
        call, result = event.call, event.result
        assert result is not None
        session = call.session.id
        attempts = self._attempts.pop(call.trace_id, 1) if self._attempts else 1
        name = call.name if call.tool is not None else call.name[:_LONGEST_NAME]
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
        if len(self._attempts) > _MOST_RETRYING:
            del self._attempts[next(iter(self._attempts))]


def _record(row: _Row) -> CallRecord:
    tool, call_id, session, number, status, seconds, at, reason_code, attempts = row
    return CallRecord(
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
