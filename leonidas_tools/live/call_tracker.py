"""The calls of a conversation: who asked, what was answered, and what the model surely has.

A function response belongs to the connection that asked: a resumed session does not act on an
answer to a call that it did not make (https://github.com/pipecat-ai/pipecat/pull/5497). So a call
is kept until the model surely has its outcome, and where that connection is gone, the outcome is
told as conversation, or answers the same call when the model makes it again.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools.calls.call import comparable
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.texts import AS_IT_IS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from leonidas_tools.results.texts import Wording


@dataclass(kw_only=True, slots=True)
class LiveCall:
    """One call that the model has made."""

    id: str  # what tools and listener know it by
    wire_id: str | None  # what the server knows it by; `None` where it gave no id
    name: str
    args: Mapping[str, Any] | None  # as they are compared; `None` if nested too deep
    connection: int  # that asked, or asked once more
    blocking: bool  # the model waits for the answer
    turn: int  # the user's turn in which it was made
    begun: bool = False  # the server was given an interim answer
    answer: ProcessorPart | None = None  # kept until the model surely has it
    delivered: int | None = None  # the number of the message that carried the answer
    confirmed: bool = False  # that message has surely arrived
    heard_before: int = -1  # how often the user had been heard when the answer was sent
    settled: bool = False  # there is nothing more to do about it
    alone: bool = False  # its answer is to go in a message of its own
    deliveries: int = 0  # how often the answer was sent
    refusals: int = 0  # how often it may have been why the server has ended a connection
    replaced: bool = False  # its answer was replaced, because it could not be sent
    earlier: tuple[str, ...] = ()  # ids of the calls of earlier connections with its wire id

    @property
    def open(self) -> bool:
        """Return whether its answer is still to come."""
        return self.answer is None and not self.settled


logger = visible_logger(__name__)

_REMEMBERED = 4096
_KEPT_ANSWERS = 64
_MOST_REFUSALS = 3
_MOST_DELIVERIES = 10
_NO_CONNECTION = -1


class CallTracker:
    """Notes what is asked and answered on each connection.

    Args:
        may_repeat: Whether a call of that function, made again after a reconnect, is to run again;
            the second argument says whether the model was given the outcome already.
        wording: Returns the texts of the settings.
    """

    def __init__(
        self,
        may_repeat: Callable[[str, bool], bool] = lambda *_: False,
        wording: Callable[[], Wording] = lambda: AS_IT_IS,
    ) -> None:
        self._may_repeat = may_repeat
        self._wording = wording
        self._calls: OrderedDict[str, LiveCall] = OrderedDict()
        self._wired: dict[str, LiveCall] = {}
        self._unsettled: dict[str, LiveCall] = {}
        self._ready: dict[str, LiveCall] = {}
        self._interim: dict[str, ProcessorPart] = {}
        self._remembered: deque[LiveCall] = deque()
        self.connection = 0
        """The connection that is open, or was last."""
        self.user_spoke = False
        """True once the user has said something new on this connection."""
        self._heard = 0

    def hear_user(self) -> None:
        """Note that the user says something new."""
        self.user_spoke = True
        self._heard += 1

    # What the server says.

    def ask(
        self, call: types.FunctionCall, *, blocking: bool, turn: int, resumed: bool, repeats: bool
    ) -> LiveCall | None:
        """Note a call; `None` for one that is delivered twice, or made again after a reconnect."""
        wire_id = call.id or None
        if wire_id in self._wired:
            return None
        before = self._same_id(call) if resumed else None
        if before is None and resumed:
            before = self._before(call, repeats=repeats)
        if before is not None:
            logger.info("The call of %r is made again after a reconnect: it runs once", call.name)
            before.connection, before.wire_id, before.blocking = self.connection, wire_id, blocking
            before.settled = before.begun = False
            self._unsettled[before.id] = before
            self._hold(before)
            self._wire(before)
            return None
        noted = LiveCall(
            id=self._free_id(wire_id),
            wire_id=wire_id,
            name=call.name or "",
            args=_comparable(call),
            connection=self.connection,
            blocking=blocking,
            turn=turn,
            earlier=self._with_wire_id(wire_id) if resumed else (),
        )
        self._calls[noted.id] = self._unsettled[noted.id] = noted
        self._wire(noted)
        while len(self._calls) > _REMEMBERED:
            _, forgotten = self._calls.popitem(last=False)
            self._settle(forgotten)
            self._wired.pop(forgotten.wire_id or "", None)
        return noted

    def cancel(self, wire_id: str) -> str:
        """Note that the server no longer wants an answer; return our id of the call.

        A resumed session may take back what it has asked for on an earlier connection.
        """
        call = self._wired.get(wire_id) or self._calls.get(wire_id)
        if call is None:
            return wire_id
        self._settle(call)
        call.answer = None
        return call.id

    def safe(self) -> None:
        """Note a new resumption handle: what arrived before it belongs to that session."""
        for call in tuple(self._unsettled.values()):
            if call.confirmed:
                self._settle(call)

    # What the tools say.

    def answer(self, part: ProcessorPart) -> bool:
        """Record an answer; return whether the model still wants it."""
        response = part.part.function_response
        assert response is not None
        call = self._calls.get(response.id or "")
        if call is None or not call.open:
            return False
        if not response.will_continue:
            call.answer = part
            self._hold(call)
            self._interim.pop(call.id, None)
            self._forget_old()
        elif call.connection == self.connection and not call.blocking:
            self._interim[call.id] = part
        return True

    def tell(self, part: ProcessorPart) -> None:
        """Queue a message about a call that was answered before."""
        told = LiveCall(
            id=uuid.uuid4().hex,
            wire_id=None,
            name="",
            args={},
            connection=_NO_CONNECTION,
            blocking=False,
            turn=0,
            answer=part,
        )
        self._calls[told.id] = self._unsettled[told.id] = told
        self._hold(told)

    def renew(self, part: ProcessorPart) -> None:
        """Replace an answer that was sent, should it be needed once more.

        A call that waited for a person has run since then, and its question is answered.
        """
        response = part.part.function_response
        assert response is not None
        call = self._calls.get(response.id or "")
        if call is None or call.answer is None:
            return
        before = call.answer.part.function_response
        if before is None or not (call.settled or call.delivered is not None):
            return
        newest = before.model_copy(update={"response": response.response, "parts": response.parts})
        metadata = dict(call.answer.metadata)
        call.answer = ProcessorPart(
            types.Part(function_response=newest), role="user", metadata=metadata
        )

    def knows(self, call_id: str | None) -> bool:
        """Return whether there was such a call."""
        return call_id in self._calls

    # What is to be sent.

    def interim(self) -> list[tuple[LiveCall, ProcessorPart]]:
        """Return the interim answers, each once."""
        ready = [(self._calls[key], part) for key, part in self._interim.items()]
        self._interim.clear()
        for call, _ in ready:
            call.begun = True
        return ready

    def due(self) -> list[LiveCall]:
        """Return the calls of this connection whose answers the next message carries."""
        return _together(c for c in self._ready.values() if c.connection == self.connection)

    def orphaned(self) -> list[LiveCall]:
        """Return the calls of earlier connections whose outcomes the next message carries."""
        return _together(c for c in self._ready.values() if c.connection != self.connection)

    def sent(self, calls: list[LiveCall], message: int) -> None:
        """Note which message carries the answers of these calls."""
        for call in calls:
            call.delivered, call.heard_before = message, self._heard
            self._ready.pop(call.id, None)
            call.deliveries += 1

    def unsendable(self, message: int) -> None:
        """Note that the message with that number cannot be sent.

        Its answers are tried one by one; the one that cannot be sent becomes a failure, and where
        not even that can be sent, nothing more is tried.
        """
        calls = [call for call in self._unsettled.values() if call.delivered == message]
        for call in calls:
            if len(calls) > 1:
                call.alone = True
                self._hold(call)
            elif call.answer is not None and call.replaced:
                self._settle(call)
            else:
                said = self._wording().text("result_unsendable")
                failure = {"status": "failed", "message": said, "retryable": False}
                answer = types.FunctionResponse(id=call.id, name=call.name, response=failure)
                call.answer = ProcessorPart(types.Part(function_response=answer), role="user")
                call.replaced = True
                self._hold(call)

    # What becomes of connections.

    def opened(self, *, number: int) -> None:
        """Note a new connection, on which ids of earlier ones mean nothing."""
        self.connection = number
        self.user_spoke = False
        self._wired.clear()
        self._interim.clear()

    def confirm(self, message: int) -> None:
        """Note that all messages up to this one have arrived."""
        for call in self._unsettled.values():
            if call.delivered is not None and call.delivered <= message:
                call.confirmed = True

    def lost(self, *, refused: bool = False) -> None:
        """Note a lost connection: answers that may not have arrived are sent again."""
        for call in tuple(self._unsettled.values()):
            if call.delivered is None or call.confirmed:
                continue
            call.refusals += refused
            call.alone = call.alone or refused
            if call.refusals < _MOST_REFUSALS and call.deliveries < _MOST_DELIVERIES:
                self._hold(call)
            else:
                logger.error("The result of %r cannot be delivered and is dropped", call.name)
                self._settle(call)

    def open_calls(self, *, blocking: bool = False) -> bool:
        """Return whether this connection has open calls, or open ones that the model waits for."""
        return any(
            call.open and call.connection == self.connection and (call.blocking or not blocking)
            for call in self._unsettled.values()
        )

    def _before(self, call: types.FunctionCall, *, repeats: bool) -> LiveCall | None:
        """Return the call of an earlier connection that this one repeats, under another id.

        A call whose outcome the model does not have is always repeated. One whose outcome it has
        may be a new request once the user has spoken after the outcome was sent, and it is known
        to have arrived.
        """
        args = _comparable(call)
        settled = [known for known in self._remembered if known.answer is not None]
        open_or_lost = [c for c in self._unsettled.values() if not c.confirmed]
        arrived = [*settled, *(c for c in self._unsettled.values() if c.confirmed)]
        # Of several, the model has yet to hear the oldest, or repeats the newest that it has heard.
        for known in (*open_or_lost, *reversed(arrived)):
            is_same = (
                known.connection not in (self.connection, _NO_CONNECTION)
                and known.name == call.name
                and _are_same(known.args, args)
            )
            if not is_same:
                continue
            given = known.settled or known.delivered is not None
            is_unheard = self._heard > 0 and self._heard == known.heard_before
            has_arrived = known.settled or known.confirmed
            if (repeats or is_unheard or not has_arrived) and not self._may_repeat(
                known.name, given
            ):
                return known
        return None

    def _same_id(self, call: types.FunctionCall) -> LiveCall | None:
        """Return the call of an earlier connection with this id, which never runs again."""
        known = self._calls.get(call.id or "")
        if known is None or known.connection == self.connection or known.name != call.name:
            return None
        remembered = known.open or known.answer is not None
        return known if remembered and _are_same(known.args, _comparable(call)) else None

    def _hold(self, call: LiveCall) -> None:
        """Queue the answer of a call to be sent, or to be sent again."""
        call.delivered, call.confirmed = None, False
        if call.answer is not None:
            self._ready[call.id] = call

    def _wire(self, call: LiveCall) -> None:
        if call.wire_id is not None:
            self._wired[call.wire_id] = call

    def _free_id(self, wire_id: str | None) -> str:
        if wire_id is None:
            return uuid.uuid4().hex
        return f"{wire_id}~{self.connection}" if wire_id in self._calls else wire_id

    def _with_wire_id(self, wire_id: str | None) -> tuple[str, ...]:
        """Return our ids of the calls that had this one; of a cancelled call nothing else is kept.

        The tools know which of them was the same call, and whether it may run again.
        """
        if wire_id is None or wire_id not in self._calls:
            return ()
        again = f"{wire_id}~"
        return tuple(each for each in self._calls if each == wire_id or each.startswith(again))

    def _forget_old(self) -> None:
        """Drop the oldest answers: sessions without handles never confirm any."""
        delivered = [c for c in self._unsettled.values() if c.delivered is not None]
        for call in delivered[: max(len(delivered) - _KEPT_ANSWERS, 0)]:
            self._settle(call)

    def _settle(self, call: LiveCall) -> None:
        """Settle a call; the last few answers are kept, in case the id comes once more."""
        call.settled = True
        self._unsettled.pop(call.id, None)
        self._ready.pop(call.id, None)
        self._interim.pop(call.id, None)
        self._remembered.append(call)
        while len(self._remembered) > _KEPT_ANSWERS:
            old = self._remembered.popleft()
            if old.settled:
                old.answer, old.args = None, {}


def _comparable(call: types.FunctionCall) -> Mapping[str, Any] | None:
    """Return the arguments of a call as they are compared, once for all comparisons."""
    try:
        arguments: Mapping[str, Any] = comparable(call.args or {})
    except RecursionError:
        return None
    return arguments


def _are_same(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Return whether two calls have the same arguments; in doubt they have."""
    return one is None or other is None or one == other


def _together(calls: Iterable[LiveCall]) -> list[LiveCall]:
    """Return the calls of the next message: the first that must go alone, else all."""
    ready = list(calls)
    return next(([call] for call in ready if call.alone), ready)
