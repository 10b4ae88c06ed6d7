"""Observe what the simulator received, and wait for it, from any thread or loop."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from websockets.protocol import State

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator.ledger import CallLedger
from leonidas_tools.simulator.recording import ReceivedAudio, ReceivedText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from leonidas_tools.simulator.listener import PausableConnection
    from leonidas_tools.simulator.recording import (
        CallRecord,
        ConnectionRecord,
        ContextUpdate,
        IssuedHandle,
        Outcome,
        RecordedMessage,
        Refusal,
        Violation,
    )
    from leonidas_tools.simulator.user_input import UserInput
    from leonidas_tools.simulator.wire import Message


@dataclass(kw_only=True, slots=True)
class Record:
    """Everything that the server recorded; written by the server's thread only."""

    changed: Callable[[], None]
    """Called after each change."""
    messages: list[RecordedMessage] = field(default_factory=list)
    setups: list[Message] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    connections: list[ConnectionRecord] = field(default_factory=list)
    audio: list[ReceivedAudio] = field(default_factory=list)
    texts: list[ReceivedText] = field(default_factory=list)
    context_updates: list[ContextUpdate] = field(default_factory=list)
    handles: list[IssuedHandle] = field(default_factory=list)
    declared: dict[int, Mapping[str, Message]] = field(default_factory=dict)
    ledger: CallLedger = field(default_factory=CallLedger)
    opened: int = 0
    websockets: dict[int, PausableConnection] = field(default_factory=dict)

    def open(self, websocket: PausableConnection) -> int:
        """Record an opened connection and return its number, counted from 1."""
        self.opened += 1
        self.websockets[self.opened] = websocket
        self.changed()
        return self.opened

    def close(self, number: int) -> None:
        """Record that a connection is closed."""
        del self.websockets[number]
        self.changed()

    @property
    def failure(self) -> str | None:
        """Return why the scenario has failed, if it has."""
        return next((each.message for each in self.outcomes if each.status == "failed"), None)

    def is_open(self, number: int) -> bool:
        """Return whether neither side has begun to close a connection."""
        websocket = self.websockets.get(number)
        return websocket is not None and websocket.state is State.OPEN

    def add_inputs(self, connection: int, inputs: Iterable[UserInput]) -> None:
        """Record the user's input."""
        now = time.monotonic()
        for each in inputs:
            if each.kind == "audio":
                self.audio.append(
                    ReceivedAudio(
                        connection=connection, at=now, data=each.data, mime_type=each.mime_type
                    )
                )
            elif each.kind == "text":
                self.texts.append(
                    ReceivedText(
                        connection=connection,
                        at=now,
                        text=each.text,
                        source=each.source,
                        role=each.role,
                    )
                )


class ConditionFutures:
    """Futures that complete when a condition becomes true.

    Example:
        >>> conditions, seen = ConditionFutures(), []
        >>> future = conditions.when(lambda: len(seen) == 1)
        >>> seen.append("message")
        >>> conditions.check()
        >>> future.done()
        True
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], Future[None]]] = []
        self._lock = threading.Lock()

    def when(self, reached: Callable[[], bool]) -> Future[None]:
        """Return a future that completes once `reached` returns true."""
        future: Future[None] = Future()
        # Marked as running, so that it cannot be cancelled while a thread completes it.
        future.set_running_or_notify_cancel()
        with self._lock:
            self._waiting.append((reached, future))
        self.check()
        return future

    def check(self) -> None:
        """Complete the futures whose condition is true; called after every change."""
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, []
            reached = [future for ready, future in waiting if ready()]
            done = set(map(id, reached))
            self._waiting = [each for each in waiting if id(each[1]) not in done]
        for future in reached:
            future.set_result(None)


class Observation:
    """Provides the records of the server's thread to any thread."""

    def __init__(self, *, scripts: int) -> None:
        self._scripts = scripts
        self._conditions = ConditionFutures()
        self._record = Record(changed=self._conditions.check)
        self._reported = False

    @property
    def messages(self) -> Sequence[RecordedMessage]:
        """Return every message in both directions, in order."""
        return tuple(self._record.messages)

    @property
    def setups(self) -> Sequence[Message]:
        """Return the setup of each of `connections`, with its fields by camel-case names."""
        return tuple(self._record.setups)

    @property
    def connections(self) -> Sequence[ConnectionRecord]:
        """Return every connection whose setup was accepted, with its session."""
        return tuple(self._record.connections)

    @property
    def open_connections(self) -> Sequence[int]:
        """Return the numbers of the open connections, set up or not."""
        return tuple(each for each in list(self._record.websockets) if self._record.is_open(each))

    @property
    def refusals(self) -> Sequence[Refusal]:
        """Return every connection that was refused without a violation of its own."""
        return tuple(self._record.refusals)

    @property
    def handles(self) -> Sequence[IssuedHandle]:
        """Return every resumption handle that was sent."""
        return tuple(self._record.handles)

    @property
    def audio_received(self) -> Sequence[ReceivedAudio]:
        """Return every microphone frame, over all connections, in order of arrival."""
        return tuple(self._record.audio)

    @property
    def texts_received(self) -> Sequence[ReceivedText]:
        """Return every text of the user, realtime or client content, in order of arrival."""
        return tuple(self._record.texts)

    @property
    def context_updates(self) -> Sequence[ContextUpdate]:
        """Return every context update, in order of arrival."""
        return tuple(self._record.context_updates)

    def declared(self, connection: int | None = None) -> Mapping[str, Message]:
        """Return the current or last declarations of a connection, by function name.

        Args:
            connection: Its number; by default the last connection with a setup.
        """
        number = connection or (self.connections[-1].number if self.connections else 0)
        return dict(self._record.declared.get(number, {}))

    def heard_pcm(self, connection: int | None = None) -> bytes:
        """Return the received microphone audio, joined.

        Args:
            connection: Only this connection; by default all, in order of arrival.
        """
        frames = self.audio_received
        return b"".join(
            each.data for each in frames if connection is None or each.connection == connection
        )

    @property
    def calls(self) -> Sequence[CallRecord]:
        """Return every call that was sent, with its answers."""
        return self._record.ledger.records

    @property
    def violations(self) -> Sequence[Violation]:
        """Return every violation of the protocol by a client."""
        return tuple(self._record.violations)

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """Return how the scenario ended, for each connection on which it did."""
        return tuple(self._record.outcomes)

    def check(self) -> None:
        """Raise if a violation or a failure was recorded.

        Raises:
            SimulatorError: A client violated the protocol, or an expectation was not met.
        """
        failures = [outcome for outcome in self.outcomes if outcome.status == "failed"]
        wrong = [*self.violations, *failures]
        if wrong:
            self._reported = True
            lines = "\n".join(f"- {each}" for each in wrong)
            # Without context: the client's own errors are consequences of this one.
            raise SimulatorError(f"The session with the simulator failed:\n{lines}") from None

    async def finished(self, connections: int | None = None) -> Outcome:
        """Wait until the scenario has ended; limit the wait with `asyncio.timeout`.

        Args:
            connections: The number of connections; by default that of the scenario.

        Returns:
            The first outcome that is not `played`, otherwise the last one.
        """
        await self._when(self._ended(connections))
        return self._outcome()

    def wait_finished(
        self, timeout_seconds: float = 30.0, *, connections: int | None = None
    ) -> Outcome:
        """Wait in a thread until the scenario has ended, as `finished` does.

        Raises:
            TimeoutError: The scenario did not end in time.
        """
        self._conditions.when(self._ended(connections)).result(timeout_seconds)
        return self._outcome()

    def _ended(self, connections: int | None) -> Callable[[], bool]:
        wanted = self._scripts if connections is None else connections
        return lambda: len(self._record.outcomes) >= wanted

    def _outcome(self) -> Outcome:
        outcomes = self.outcomes
        return next((each for each in outcomes if not each.ok), outcomes[-1])

    def wait_closed(self, timeout_seconds: float = 30.0) -> None:
        """Wait in a thread until there was a connection and all are closed.

        Raises:
            TimeoutError: A connection is still open.
        """
        self._conditions.when(self._is_closed).result(timeout_seconds)

    async def closed(self) -> None:
        """Wait until there was a connection and all are closed."""
        await self._when(self._is_closed)

    def _is_closed(self) -> bool:
        return self._record.opened > 0 and not self._record.websockets

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until a condition on the recorded data is true.

        Args:
            reached: The condition. It must depend only on `messages`, `calls`, …, since it is
                checked only when those change; called in the server's thread.
        """
        await self._when(reached)

    async def _when(self, reached: Callable[[], bool]) -> None:
        await asyncio.wrap_future(self._conditions.when(reached))
