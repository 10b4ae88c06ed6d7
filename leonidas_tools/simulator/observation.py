"""Observe what the simulator received, and wait for it, from any thread or loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator.milestones import Milestones
from leonidas_tools.simulator.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from leonidas_tools.simulator.received import (
        ConnectionRecord,
        ContextUpdate,
        IssuedHandle,
        ReceivedAudio,
        ReceivedText,
        Refusal,
    )
    from leonidas_tools.simulator.recording import (
        CallRecord,
        Outcome,
        RecordedMessage,
        Violation,
    )
    from leonidas_tools.simulator.wire import Message


class Observation:
    """A record that the server's thread writes and anybody reads.

    Args:
        scripts: How many connections the scenario has.
    """

    def __init__(self, *, scripts: int) -> None:
        self._scripts = scripts
        self._milestones = Milestones()
        self._record = Record(changed=self._milestones.check)
        self._reported = False

    @property
    def messages(self) -> Sequence[RecordedMessage]:
        """Return every message in both directions, in order."""
        return tuple(self._record.messages)

    @property
    def setups(self) -> Sequence[Message]:
        """Return the setup messages, one for each of `connections`, by camel-case names."""
        return tuple(self._record.setups)

    @property
    def connections(self) -> Sequence[ConnectionRecord]:
        """Return every connection whose setup was taken, with the session it belongs to."""
        return tuple(self._record.connections)

    @property
    def open_connections(self) -> Sequence[int]:
        """Return the numbers of the open connections, set up or not."""
        return tuple(each for each in list(self._record.websockets) if self._record.is_open(each))

    @property
    def refusals(self) -> Sequence[Refusal]:
        """Return every connection that was turned away without having done wrong."""
        return tuple(self._record.refusals)

    @property
    def handles(self) -> Sequence[IssuedHandle]:
        """Return every handle to resume with that was sent."""
        return tuple(self._record.handles)

    @property
    def audio_received(self) -> Sequence[ReceivedAudio]:
        """Return every frame of the microphone, over all connections in the order they came."""
        return tuple(self._record.audio)

    @property
    def texts_received(self) -> Sequence[ReceivedText]:
        """Return every text of the user, realtime or as client content, in the order they came."""
        return tuple(self._record.texts)

    @property
    def context_updates(self) -> Sequence[ContextUpdate]:
        """Return every context update, in the order they came."""
        return tuple(self._record.context_updates)

    def declared(self, connection: int | None = None) -> Mapping[str, Message]:
        """Return the declarations in force on a connection, or last in force on it, by name.

        Args:
            connection: Its number; by default the last whose setup was taken.
        """
        number = connection or (self.connections[-1].number if self.connections else 0)
        return dict(self._record.declared.get(number, {}))

    def heard_pcm(self, connection: int | None = None) -> bytes:
        """Return the sound of the microphone as one piece.

        Args:
            connection: What came on this one only; by default over all, in the order it came.
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
        """Return every breach of the protocol by a client."""
        return tuple(self._record.violations)

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """Return how the scenario ended, for each connection on which it did."""
        return tuple(self._record.outcomes)

    def check(self) -> None:
        """Raise for what went wrong so far.

        Raises:
            SimulatorError: A client broke the protocol, or an expectation was not met.
        """
        failures = [outcome for outcome in self.outcomes if outcome.status == "failed"]
        wrong = [*self.violations, *failures]
        if wrong:
            self._reported = True
            lines = "\n".join(f"- {each}" for each in wrong)
            # By itself: the client's own errors only follow from it.
            raise SimulatorError(f"The session with the simulator went wrong:\n{lines}") from None

    async def finished(self, connections: int | None = None) -> Outcome:
        """Wait until the scenario has ended; put `asyncio.timeout` around it.

        Args:
            connections: On how many connections; by default as many as the scenario has.

        Returns:
            The first outcome that is not `played`, otherwise the last one.
        """
        await self._when(self._ended(connections))
        return self._outcome()

    def wait_finished(
        self, timeout_seconds: float = 30.0, *, connections: int | None = None
    ) -> Outcome:
        """Do what `finished` does, for a thread.

        Raises:
            TimeoutError: The scenario did not end in time.
        """
        self._milestones.when(self._ended(connections)).result(timeout_seconds)
        return self._outcome()

    def _ended(self, connections: int | None) -> Callable[[], bool]:
        wanted = self._scripts if connections is None else connections
        return lambda: len(self._record.outcomes) >= wanted

    def _outcome(self) -> Outcome:
        outcomes = self.outcomes
        return next((each for each in outcomes if not each.ok), outcomes[-1])

    def wait_closed(self, timeout_seconds: float = 30.0) -> None:
        """Wait in a thread until there was a connection and none is open any more.

        Raises:
            TimeoutError: A connection is still open.
        """
        self._milestones.when(self._is_closed).result(timeout_seconds)

    async def closed(self) -> None:
        """Wait until there was a connection and none is open any more."""
        await self._when(self._is_closed)

    def _is_closed(self) -> bool:
        return self._record.opened > 0 and not self._record.websockets

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is true of what was seen.

        Args:
            reached: Looks at `messages`, `calls`, …, not at anything else, since it is asked again
                only when those change; called in the server's thread.
        """
        await self._when(reached)

    async def _when(self, reached: Callable[[], bool]) -> None:
        await asyncio.wrap_future(self._milestones.when(reached))
