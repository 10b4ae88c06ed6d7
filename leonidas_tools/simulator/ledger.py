"""The ledger of calls: sent, answered, cancelled, and answers without a call."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.simulator.recording import Answer, CallRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leonidas_tools.simulator.wire import Message

_Key: TypeAlias = tuple[int, str | int]


class CallLedger:
    """The calls of all connections; written by the server's thread, read from any.

    Example:
        >>> ledger = CallLedger()
        >>> ledger.sent(1, "c1", "f", {})
        >>> ledger.answered(1, {"id": "c1", "name": "f", "response": {"output": 1}})
        >>> ledger.answered(1, {"id": "c1", "name": "f", "response": {"output": 1}})
        "call 'c1' of 'f' was already answered"
    """

    def __init__(self) -> None:
        self._records: dict[_Key, CallRecord] = {}
        self._lock = threading.Lock()

    @property
    def records(self) -> tuple[CallRecord, ...]:
        """Return all calls, in the order in which they were sent."""
        with self._lock:
            return tuple(self._records.values())

    def find(self, connection: int, call_id: str) -> CallRecord | None:
        """Return the call with that id on that connection."""
        return self._records.get((connection, call_id))

    def of(self, connection: int) -> list[CallRecord]:
        """Return the calls of one connection, in the order in which they were sent."""
        return [record for record in self.records if record.connection == connection]

    def awaited_by(self, connection: int, response: Message) -> CallRecord | None:
        """Return the call of that connection that a well-formed answer belongs to, if any."""
        key = self._key_of(connection, response.get("id"), response["name"])
        return None if key is None else self._records[key]

    def sent(
        self,
        connection: int,
        call_id: str | None,
        name: str,
        args: Any,
        *,
        blocking: bool = True,
        id_sent: bool = True,
    ) -> None:
        """Record a call; a repeated id is the same call delivered again."""
        with self._lock:
            key = (connection, call_id if call_id is not None else len(self._records))
            if known := self._records.get(key):
                self._records[key] = replace(known, deliveries=known.deliveries + 1)
                return
            self._records[key] = CallRecord(
                id=call_id,
                name=name,
                args=args,
                connection=connection,
                sent_at=time.monotonic(),
                blocking=blocking,
                id_sent=id_sent and call_id is not None,
            )

    def cancelled(self, connection: int, ids: Iterable[str]) -> None:
        """Record that the server cancelled calls."""
        with self._lock:
            for key in ((connection, call_id) for call_id in ids):
                if (record := self._records.get(key)) and not record.cancelled:
                    self._records[key] = replace(record, cancelled_at=time.monotonic())

    def cancellation_seen(self, connection: int, ids: Iterable[str]) -> None:
        """Record that the client has received a cancellation; later answers count as late."""
        with self._lock:
            for key in ((connection, call_id) for call_id in ids):
                if record := self._records.get(key):
                    self._records[key] = replace(record, cancellation_seen_at=time.monotonic())

    def answered(self, connection: int, response: Message) -> str | None:
        """Record a well-formed answer and return its violation, if any."""
        call_id, name = response.get("id"), response["name"]
        with self._lock:
            key = self._key_of(connection, call_id, name)
            if key is None:
                return self._never_issued(connection, call_id, name)
            record = self._records[key]
            late = record.cancellation_seen_at is not None
            self._records[key] = replace(
                record,
                answers=(*record.answers, _answer(record, response)),
                late_answers=record.late_answers + late,
            )
        call_id = record.id or call_id
        if late:
            return f"call {call_id!r} of {record.name!r} was cancelled; no response is allowed"
        if record.final_answers:
            return f"call {call_id!r} of {record.name!r} was already answered"
        if name != record.name:
            return f"call {call_id!r} is of {record.name!r}; it was answered as {name!r}"
        return None

    def _key_of(self, connection: int, call_id: str | None, name: str) -> _Key | None:
        if call_id is not None:
            record = self._records.get((connection, call_id))
            if record is not None and record.id_sent:
                return connection, call_id
        # A call sent without an id can only be recognised by its name.
        for key, record in self._records.items():
            nameless = key[0] == connection and not record.id_sent and record.pending
            if nameless and record.name == name:
                return key
        return None

    def _never_issued(self, connection: int, call_id: str | None, name: str) -> str:
        if call_id is None:
            return f"no call of {name!r} awaits an answer"
        elsewhere = [key[0] for key in self._records if key[1] == call_id]
        if elsewhere:
            return f"call {call_id!r} was issued on connection {elsewhere[0]}, not on this one"
        ids = [key[1] for key in self._records if key[0] == connection and isinstance(key[1], str)]
        hint = f"; the last were {', '.join(map(repr, ids[-3:]))}" if ids else ""
        return f"no call {call_id!r} was issued{hint}"


def _answer(record: CallRecord, response: Message) -> Answer:
    return Answer(
        id=response.get("id") or record.id,
        name=response["name"],
        response=response["response"],
        at=time.monotonic(),
        scheduling=response.get("scheduling"),
        # A BLOCKING call has no interim answers: the server ignores its willContinue.
        final=record.blocking or not response.get("willContinue"),
    )
