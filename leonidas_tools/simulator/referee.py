"""The rules that a client is held to on one connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.simulator import protocol
from leonidas_tools.simulator.wire import Message, fields, objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.simulator.ledger import CallLedger
    from leonidas_tools.simulator.quirks import Quirks


@dataclass(frozen=True, kw_only=True, slots=True)
class Breach:
    """One thing that a client did wrong.

    Args:
        reason: What is wrong.
        data: The message, or the part of it, that is wrong.
        code: The code a strict server closes with.
    """

    reason: str
    data: Any
    code: int = protocol.INVALID


class Referee:
    """Judges the messages of one connection, in the order they come.

    Args:
        number: The connection, counted from 1.
        quirks: How this server differs from others.
        ledger: The calls and their outcomes.
    """

    def __init__(self, number: int, *, quirks: Quirks, ledger: CallLedger) -> None:
        self._number = number
        self._quirks = quirks
        self._ledger = ledger
        self._begun = False

    def judge_setup(self, body: Message) -> Iterator[Breach]:
        """Yield what is wrong with the setup."""
        data = {"setup": body}
        if complaint := protocol.setup_complaint(body):
            yield Breach(reason=complaint, data=data)
        for complaint in protocol.declaration_complaints(body.get("tools"), self._quirks):
            yield Breach(reason=complaint, data=data)

    def resumed(self) -> None:
        """Take note that the session began on another connection."""
        self._begun = True

    def judge(self, kind: str, body: Message) -> Iterator[Breach]:
        """Yield what is wrong with a message, and with what it means at this moment."""
        data = {kind: body}
        if kind == "setup":
            yield Breach(reason="a second setup", data=data)
        for complaint in protocol.complaints(kind, body, self._quirks):
            yield Breach(reason=complaint, data=data)
        if kind == "toolResponse":
            for response in objects(body.get("functionResponses")):
                yield from self._judge_response(response)
        elif kind == "contextUpdate":
            yield from self._judge_update(body, data)
        elif kind == "realtimeInput" and self._audio_is_blocked(body):
            reason = "audio while a BLOCKING call is unanswered"
            yield Breach(reason=reason, data=data, code=protocol.POLICY)
        elif kind == "clientContent" and self._begun and self._quirks.seed_only_client_content:
            reason = "clientContent in the midst of a session: send realtimeInput.text"
            yield Breach(reason=reason, data=data)
        self._note(kind, body)

    def _note(self, kind: str, body: Message) -> None:
        """Note the first turn, with which a session begins; earlier turns are its history."""
        turn_ends = kind == "clientContent" and bool(body.get("turnComplete"))
        self._begun = self._begun or turn_ends or kind in {"realtimeInput", "toolResponse"}

    def _judge_response(self, response: Message) -> Iterator[Breach]:
        if complaint := protocol.response_complaint(response, self._quirks):
            yield Breach(reason=complaint, data=response)
            return
        call = self._ledger.awaited_by(self._number, response)
        if complaint := self._ledger.answered(self._number, response):
            yield Breach(reason=complaint, data=response)
        manner = protocol.manner_of(response)
        if call and call.blocking and manner and self._quirks.plain_blocking_answers:
            reason = f"call {call.id!r} of {call.name!r} is BLOCKING; its answer says no {manner}"
            yield Breach(reason=reason, data=response)

    def _judge_update(self, body: Message, data: Message) -> Iterator[Breach]:
        if not self._quirks.takes_context_update:
            reason = "this model takes no contextUpdate; reconnect to change tools or instruction"
            yield Breach(reason=reason, data=data)
        tools = fields(body.get("tools")).get("tools")
        for complaint in protocol.declaration_complaints(tools, self._quirks):
            yield Breach(reason=complaint, data=data)

    def _audio_is_blocked(self, body: Message) -> bool:
        return (
            self._quirks.audio_blocked_while_pending
            and bool(body.keys() & {"audio", "mediaChunks"})
            and any(call.pending and call.blocking for call in self._ledger.of(self._number))
        )
