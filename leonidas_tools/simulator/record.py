"""The record of all that was seen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from websockets.protocol import State

from leonidas_tools.simulator.ledger import CallLedger
from leonidas_tools.simulator.received import ReceivedAudio, ReceivedText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from leonidas_tools.simulator.hearing import HearingConnection
    from leonidas_tools.simulator.received import (
        ConnectionRecord,
        ContextUpdate,
        IssuedHandle,
        Refusal,
    )
    from leonidas_tools.simulator.recording import Outcome, RecordedMessage, Violation
    from leonidas_tools.simulator.user_input import UserInput
    from leonidas_tools.simulator.wire import Message


@dataclass(kw_only=True, slots=True)
class Record:
    """The complete record; written by the server's thread only.

    Args:
        changed: Called after each change.
    """

    changed: Callable[[], None]
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
    websockets: dict[int, HearingConnection] = field(default_factory=dict)

    def open(self, websocket: HearingConnection) -> int:
        """Keep a connection that was opened; returns its number, counted from 1."""
        self.opened += 1
        self.websockets[self.opened] = websocket
        self.changed()
        return self.opened

    def close(self, number: int) -> None:
        """Take note that a connection is closed."""
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

    def take(self, connection: int, inputs: Iterable[UserInput]) -> None:
        """Keep what the user sent."""
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
