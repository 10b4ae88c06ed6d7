"""The exchange of messages on one connection: sending, receiving, waiting."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from leonidas_tools.simulator.protocol import behavior_of, functions_in
from leonidas_tools.simulator.wire import Message, fields, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from leonidas_tools.simulator.door import Refusing
    from leonidas_tools.simulator.ledger import CallLedger
    from leonidas_tools.simulator.quirks import Quirks
    from leonidas_tools.simulator.received import ConnectionRecord, ContextUpdate
    from leonidas_tools.simulator.recording import Answer, CallRecord
    from leonidas_tools.simulator.user_input import UserInput


class StepFailedError(Exception):
    """Raised when an expectation of a scenario is not met, or a step cannot be played."""


class ClientLeftError(Exception):
    """Raised in a scenario when the client has disconnected."""


class Line(Protocol):
    """The connection and the server, as a session uses them."""

    @property
    def ended(self) -> bool:
        """Return whether the server has ended the connection."""

    async def send(self, message: Message | str) -> None:
        """Send a message, or a raw frame."""

    def told(self, ids: tuple[str, ...]) -> None:
        """Has it noted when the client has seen what was sent so far."""

    async def close(self, code: int, reason: str) -> None:
        """End the connection in good order."""

    def close_later(self, seconds: float, code: int, reason: str) -> None:
        """End the connection in good order after a while."""

    def drop(self) -> None:
        """End the connection without a word."""

    def turn_deaf(self, seconds: float | None) -> None:
        """Take no notice of what the client sends, for a while or for good."""

    def new_handle(self) -> str:
        """Return a new handle."""

    def issue_handle(self, handle: str) -> None:
        """Make a handle good for this session."""

    def expire_handles(self) -> None:
        """End the life of all handles of this session."""

    def refuse_connections(self, count: int, refusing: Refusing) -> None:
        """Turn away connections to come."""

    def stop_listening(self, seconds: float) -> None:
        """Stop the server's listening for a while."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """The pace of a scenario.

    Args:
        speed: 1 is as written, 2 twice as fast, `math.inf` without pauses.
    """

    speed: float = 1.0

    def seconds(self, written: float) -> float:
        """Return how long a pause really is, in seconds."""
        return written / self.speed


class Exchange:
    """The model's side of one connection, without anything it says.

    Args:
        origin: Which connection this is, and the session it belongs to.
        setup: What the client's setup message holds, by camel-case names.
        line: The connection.
        ledger: Where calls and answers are kept.
        pace: How fast to play.
        quirks: How this server differs from others.
    """

    def __init__(
        self,
        *,
        origin: ConnectionRecord,
        setup: Message,
        line: Line,
        ledger: CallLedger,
        pace: Pace,
        quirks: Quirks,
    ) -> None:
        self.setup = setup
        self._origin = origin
        self._line = line
        self._ledger = ledger
        self._pace = pace
        self._quirks = quirks
        self._declared = functions_in(setup.get("tools"))
        self._inputs: list[UserInput] = []
        self._updates: list[ContextUpdate] = []
        self._changed = asyncio.Event()
        self._left = asyncio.Event()
        self._calls_sent = 0

    # Who this is.

    @property
    def number(self) -> int:
        """Return which connection this is, counted from 1."""
        return self._origin.number

    @property
    def session(self) -> int:
        """Return which session the connection belongs to, counted from 1."""
        return self._origin.session

    @property
    def resumed_from(self) -> int | None:
        """Return the connection that had the session before; None if the session is new."""
        return self._origin.resumed_from

    @property
    def declared(self) -> Mapping[str, Message]:
        """Return the declarations in force, by the function's name."""
        return dict(self._declared)

    # What the connection tells the session.

    def receive(self, inputs: Iterable[UserInput], update: ContextUpdate | None) -> None:
        """Take in what the client has sent."""
        self._inputs.extend(inputs)
        if update is not None:
            self._updates.append(update)
            if update.tools is not None:
                self._declared = dict(update.tools)
        self._changed.set()

    def leave(self) -> None:
        """Note that the client has disconnected: all waits for it end."""
        self._left.set()
        self._changed.set()

    @property
    def answers(self) -> dict[str, Answer]:
        """Return the last answer to each call of this connection, by id."""
        return {
            record.id or record.answers[-1].id or record.name: record.answers[-1]
            for record in self._ledger.of(self.number)
            if record.answers
        }

    @property
    def pending(self) -> tuple[str, ...]:
        """Return the ids of the calls that still await their answer."""
        return tuple(record.id for record in self._pending() if record.id is not None)

    def _pending(self) -> list[CallRecord]:
        return [record for record in self._ledger.of(self.number) if record.pending]

    def _record(self, call_id: str) -> CallRecord:
        record = self._ledger.find(self.number, call_id)
        if record is None:
            raise StepFailedError(f"no call {call_id!r} was sent on this connection")
        return record

    async def pause(self, seconds: float) -> None:
        """Do nothing for a while, or less at a higher speed."""
        try:
            async with asyncio.timeout(self._pace.seconds(seconds)):
                await self._left.wait()
        except TimeoutError:
            return
        raise ClientLeftError

    async def send(self, message: Mapping[str, Any] | str) -> None:
        """Send a raw message; a text is sent as a frame even if it is not JSON.

        Calls and cancellations in it are kept like any other.
        """
        if isinstance(message, str):
            await self._line.send(message)
            return
        self._note_calls(message)
        cancelled = _ids_in(message.get("toolCallCancellation"))
        self._ledger.cancelled(self.number, cancelled)
        await self._line.send(dict(message))
        if cancelled:
            self._line.told(cancelled)

    def _note_calls(self, message: Mapping[str, Any]) -> None:
        turn = fields(fields(message.get("serverContent")).get("modelTurn"))
        calls = objects(fields(message.get("toolCall")).get("functionCalls"))
        calls += [fields(part.get("functionCall")) for part in objects(turn.get("parts"))]
        for call in calls:
            if call.get("name"):
                self._note_call(call, id_sent=True)

    def _note_call(self, call: Message, *, id_sent: bool) -> None:
        self._calls_sent += 1
        name = call["name"]
        said = behavior_of(self._declared.get(name, {}))
        self._ledger.sent(
            self.number,
            call.get("id"),
            name,
            call.get("args"),
            blocking=(said or self._quirks.default_behavior) == "BLOCKING",
            id_sent=id_sent,
        )

    async def _until(
        self, ready: Callable[[], bool], within_seconds: float, what: Callable[[], str]
    ) -> None:
        """Wait for the client in real time."""
        deadline = time.monotonic() + within_seconds
        while not ready():
            if self._left.is_set():
                raise ClientLeftError(what())
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0:
                raise StepFailedError(f"{what()} within {within_seconds:g} s")
            self._changed.clear()
            try:
                async with asyncio.timeout(left_seconds):
                    await self._changed.wait()
            except TimeoutError:
                continue


def _ids_in(cancellation: Any) -> tuple[str, ...]:
    ids = fields(cancellation).get("ids")
    return tuple(each for each in ids if isinstance(each, str)) if isinstance(ids, list) else ()
