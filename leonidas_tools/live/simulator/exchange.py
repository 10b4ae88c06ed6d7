"""The exchange of messages on one connection: sending, receiving, waiting."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from leonidas_tools.live.simulator.protocol import declarations
from leonidas_tools.live.simulator.user_input import UserInput, inputs_in
from leonidas_tools.live.simulator.wire import Message, fields, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leonidas_tools.live.simulator.ledger import CallLedger
    from leonidas_tools.live.simulator.recording import Answer, CallRecord


class StepFailedError(Exception):
    """Raised when an expectation of a scenario is not met, or a step cannot be played."""


class ClientLeftError(Exception):
    """Raised in a scenario when the client is gone."""


class Line(Protocol):
    """What a session needs of its connection."""

    async def send(self, message: Message | str) -> None:
        """Sends a message, or a frame as it is."""

    def told(self, ids: tuple[str, ...]) -> None:
        """Has it noted when the client has seen what was sent so far."""

    async def close(self, code: int, reason: str) -> None:
        """Ends the connection in good order."""

    def drop(self) -> None:
        """Ends the connection without a word."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How fast a scenario is played.

    Args:
        speed: 1 is as written, 2 twice as fast, `math.inf` without pauses.
    """

    speed: float = 1.0

    def seconds(self, written: float) -> float:
        """How long a pause really is, in seconds."""
        return written / self.speed


class Exchange:
    """The model's side of one connection, without anything it says.

    Args:
        number: Which connection this is, counted from 1.
        setup: What the client's setup message holds, by camel-case names.
        line: The connection.
        ledger: Where calls and answers are kept.
        pace: How fast to play.
        default_behavior: What a declaration without `behavior` means.
    """

    def __init__(
        self,
        *,
        number: int,
        setup: Message,
        line: Line,
        ledger: CallLedger,
        pace: Pace,
        default_behavior: str = "BLOCKING",
    ) -> None:
        self.number = number
        self.setup = setup
        self._line = line
        self._ledger = ledger
        self._pace = pace
        self._default_behavior = default_behavior
        self._declared = dict(declarations(setup.get("tools")))
        self._inputs: list[UserInput] = []
        self._changed = asyncio.Event()
        self._left = asyncio.Event()
        self._calls_sent = 0

    # What the connection tells the session.

    def receive(self, kind: str, body: Message) -> None:
        """Takes in a message of the client."""
        self._inputs.extend(inputs_in(kind, body))
        if kind == "contextUpdate" and "tools" in body:
            self._declared = dict(declarations(fields(body["tools"]).get("tools")))
        self._changed.set()

    def leave(self) -> None:
        """Takes note that the client is gone: whatever waits for it stops waiting."""
        self._left.set()
        self._changed.set()

    @property
    def answers(self) -> dict[str, Answer]:
        """The last answer to each call of this session, by id."""
        return {
            record.id or record.answers[-1].id: record.answers[-1]
            for record in self._ledger.of(self.number)
            if record.answers
        }

    @property
    def pending(self) -> tuple[str, ...]:
        """The ids of the calls that still await their answer."""
        return tuple(
            record.id
            for record in self._ledger.of(self.number)
            if record.pending and record.id is not None
        )

    def _record(self, call_id: str) -> CallRecord:
        record = self._ledger.find(self.number, call_id)
        if record is None:
            raise StepFailedError(f"no call {call_id!r} was sent on this connection")
        return record

    async def pause(self, seconds: float) -> None:
        """Does nothing for a while, or less at a higher speed."""
        try:
            async with asyncio.timeout(self._pace.seconds(seconds)):
                await self._left.wait()
        except TimeoutError:
            return
        raise ClientLeftError

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes the connection in good order."""
        await self._line.close(code, reason)

    async def drop(self) -> None:
        """Drops the connection without a closing frame, as a lost network does."""
        self._line.drop()

    async def send(self, message: Mapping[str, Any] | str) -> None:
        """Sends a message as it is; a text is sent as a frame even if it is not JSON.

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
            if name := call.get("name"):
                self._calls_sent += 1
                blocking = (self._declared.get(name) or self._default_behavior) == "BLOCKING"
                self._ledger.sent(
                    self.number, call.get("id"), name, call.get("args"), blocking=blocking
                )

    async def _until(
        self, ready: Callable[[], bool], within_seconds: float, what: Callable[[], str]
    ) -> None:
        try:
            async with asyncio.timeout(within_seconds):
                while not ready():
                    if self._left.is_set():
                        raise ClientLeftError(what())
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise StepFailedError(f"{what()} within {within_seconds:g} s") from None


def _ids_in(cancellation: Any) -> tuple[str, ...]:
    ids = fields(cancellation).get("ids")
    return tuple(each for each in ids if isinstance(each, str)) if isinstance(ids, list) else ()
