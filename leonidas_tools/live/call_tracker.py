"""Track the calls of a conversation, their responses, and which responses have arrived.

A function response belongs to the connection that made the call: a resumed session does not act on
the response to a call that it did not make (https://github.com/pipecat-ai/pipecat/pull/5497). So a
call is kept until its response has surely arrived. If the connection is lost before, the result is
sent as conversation text, or as the response when the model repeats the call.
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

    id: str  # the id that the tools and the listener use
    wire_id: str | None  # the server's id; `None` if it gave none
    name: str
    args: Mapping[str, Any] | None  # in comparable form; `None` if nested too deep
    connection: int  # number of the connection that made the call last
    blocking: bool  # the model waits for the response
    turn: int  # number of the user's turn in which it was made
    begun: bool = False  # an interim response was sent
    answer: ProcessorPart | None = None  # kept until it has surely arrived
    delivered: int | None = None  # number of the message that carried the answer
    confirmed: bool = False  # that message has surely arrived
    inputs_before: int = -1  # count of `note_user_input` when the answer was sent
    settled: bool = False  # nothing more is sent for this call
    alone: bool = False  # its response needs a separate message
    deliveries: int = 0  # number of times the answer was sent
    refusals: int = 0  # number of connections closed, perhaps because of its answer
    replaced: bool = False  # a failure replaced an answer that could not be sent
    earlier: tuple[str, ...] = ()  # ids of earlier connections' calls with the same wire id

    @property
    def open(self) -> bool:
        """Return whether the call still waits for its response."""
        return self.answer is None and not self.settled


logger = visible_logger(__name__)

_REMEMBERED = 4096
_KEPT_ANSWERS = 64
_MAX_REFUSALS = 3
_MAX_DELIVERIES = 10
_NO_CONNECTION = -1


class CallTracker:
    """Records the calls and the function responses of each connection.

    Args:
        may_repeat: Returns whether a call of the named function runs again if the model repeats it
            after a reconnect. The second argument says whether its result was sent already.
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
        """Number of the current connection, or of the last one."""
        self._session_began = 0
        self.user_spoke = False
        """True after new input of the user on this connection."""
        self._user_inputs = 0

    def note_user_input(self) -> None:
        """Record new input of the user."""
        self.user_spoke = True
        self._user_inputs += 1

    # From the server.

    def ask(
        self, call: types.FunctionCall, *, blocking: bool, turn: int, resumed: bool, repeats: bool
    ) -> LiveCall | None:
        """Record a call; return `None` for a duplicate, or a call repeated after a reconnect."""
        wire_id = call.id or None
        if wire_id in self._wired:
            return None
        before = self._find_by_id(call) if resumed else None
        if before is None and resumed:
            before = self._find_earlier(call, repeats=repeats)
        if before is not None:
            logger.info(
                "The model repeated the call of %r after a reconnect; it does not run again",
                call.name,
            )
            before.connection, before.wire_id, before.blocking = self.connection, wire_id, blocking
            before.settled = before.begun = False
            self._unsettled[before.id] = before
            self._queue(before)
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
            earlier=self._find_by_wire_id(wire_id) if resumed else (),
        )
        self._calls[noted.id] = self._unsettled[noted.id] = noted
        self._wire(noted)
        while len(self._calls) > _REMEMBERED:
            _, forgotten = self._calls.popitem(last=False)
            self._settle(forgotten)
            self._wired.pop(forgotten.wire_id or "", None)
        return noted

    def cancel(self, wire_id: str) -> str:
        """Record that the server has cancelled a call, and return our id of the call.

        A resumed session may cancel a call that it made on an earlier connection.
        """
        call = self._wired.get(wire_id) or self._calls.get(wire_id)
        if call is None:
            return wire_id
        self._settle(call)
        call.answer = None
        return call.id

    def safe(self) -> None:
        """Record a new resumption handle: its session includes all that arrived before."""
        for call in tuple(self._unsettled.values()):
            if call.confirmed:
                self._settle(call)

    # From the tools.

    def answer(self, part: ProcessorPart) -> None:
        """Record a response, unless the call waits for none."""
        response = part.part.function_response
        assert response is not None
        call = self._calls.get(response.id or "")
        if call is None or not call.open:
            return
        if not response.will_continue:
            call.answer = part
            self._queue(call)
            self._interim.pop(call.id, None)
            self._forget_old()
        elif call.connection == self.connection and not call.blocking:
            self._interim[call.id] = part

    def queue_late(self, part: ProcessorPart) -> None:
        """Queue the late result of a call that was answered before."""
        late = LiveCall(
            id=uuid.uuid4().hex,
            wire_id=None,
            name="",
            args={},
            connection=_NO_CONNECTION,
            blocking=False,
            turn=0,
            answer=part,
        )
        self._calls[late.id] = self._unsettled[late.id] = late
        self._queue(late)

    def renew(self, part: ProcessorPart) -> None:
        """Replace a response that was sent, in case the model repeats the call.

        A person has approved or retried the call since then.
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
        """Return whether a call with this id was recorded."""
        return call_id in self._calls

    # To the server.

    def interim(self) -> list[tuple[LiveCall, ProcessorPart]]:
        """Remove and return the queued interim responses."""
        ready = [(self._calls[key], part) for key, part in self._interim.items()]
        self._interim.clear()
        for call, _ in ready:
            call.begun = True
        return ready

    def due(self) -> list[LiveCall]:
        """Return the calls of this connection whose responses the next message carries."""
        return _take_batch(c for c in self._ready.values() if c.connection == self.connection)

    def orphaned(self) -> list[LiveCall]:
        """Return the calls of earlier connections whose results the next message carries."""
        return _take_batch(c for c in self._ready.values() if c.connection != self.connection)

    def lost_calls(self) -> list[LiveCall]:
        """Return this session's calls of earlier connections, if no response surely arrived."""
        return [
            call
            for call in self._unsettled.values()
            if self._session_began <= call.connection < self.connection and not call.confirmed
        ]

    def sent(self, calls: list[LiveCall], message: int) -> None:
        """Record the number of the message that carries the responses of these calls."""
        for call in calls:
            call.delivered, call.inputs_before = message, self._user_inputs
            self._ready.pop(call.id, None)
            call.deliveries += 1

    def unsendable(self, message: int) -> None:
        """Record that the message with that number cannot be sent.

        Its responses are retried one by one. A failure replaces a response that cannot be sent
        alone. If that failure cannot be sent either, the call is dropped.
        """
        calls = [call for call in self._unsettled.values() if call.delivered == message]
        for call in calls:
            if len(calls) > 1:
                call.alone = True
                self._queue(call)
            elif call.answer is not None and call.replaced:
                self._settle(call)
            else:
                said = self._wording().text("result_unsendable")
                failure = {"status": "failed", "message": said, "retryable": False}
                answer = types.FunctionResponse(id=call.id, name=call.name, response=failure)
                call.answer = ProcessorPart(types.Part(function_response=answer), role="user")
                call.replaced = True
                self._queue(call)

    # Connections.

    def opened(self, *, number: int, resumed: bool = False) -> None:
        """Record a new connection, on which wire ids of earlier connections are not valid."""
        self.connection = number
        if not resumed:
            self._session_began = number
        self.user_spoke = False
        self._wired.clear()
        self._interim.clear()

    def confirm(self, message: int) -> None:
        """Record that all messages up to this number have arrived."""
        for call in self._unsettled.values():
            if call.delivered is not None and call.delivered <= message:
                call.confirmed = True

    def lost(self, *, refused: bool = False) -> None:
        """Record a lost connection, and queue the responses that may not have arrived."""
        for call in tuple(self._unsettled.values()):
            if call.delivered is None or call.confirmed:
                continue
            call.refusals += refused
            call.alone = call.alone or refused
            if call.refusals < _MAX_REFUSALS and call.deliveries < _MAX_DELIVERIES:
                self._queue(call)
            else:
                logger.error("The result of %r cannot be delivered and is dropped", call.name)
                self._settle(call)

    def has_open_calls(self, *, blocking: bool = False) -> bool:
        """Return whether this connection has open calls; with `blocking`, open blocking calls."""
        return any(
            call.open and call.connection == self.connection and (call.blocking or not blocking)
            for call in self._unsettled.values()
        )

    def _find_earlier(self, call: types.FunctionCall, *, repeats: bool) -> LiveCall | None:
        """Return the call of an earlier connection that this call repeats under another id.

        A call repeats one whose response has not surely arrived. After that it may be a new
        request, if the user has spoken since the response was sent.
        """
        args = _comparable(call)
        settled = [known for known in self._remembered if known.answer is not None]
        open_or_lost = [c for c in self._unsettled.values() if not c.confirmed]
        arrived = [*settled, *(c for c in self._unsettled.values() if c.confirmed)]
        # Prefer the oldest that may not have arrived, then the newest that has.
        for known in (*open_or_lost, *reversed(arrived)):
            is_same = (
                known.connection not in (self.connection, _NO_CONNECTION)
                and known.name == call.name
                and _are_same(known.args, args)
            )
            if not is_same:
                continue
            given = known.settled or known.delivered is not None
            is_unheard = self._user_inputs > 0 and self._user_inputs == known.inputs_before
            has_arrived = known.settled or known.confirmed
            if (repeats or is_unheard or not has_arrived) and not self._may_repeat(
                known.name, given
            ):
                return known
        return None

    def _find_by_id(self, call: types.FunctionCall) -> LiveCall | None:
        """Return the call of an earlier connection with this id, which never runs again."""
        known = self._calls.get(call.id or "")
        if known is None or known.connection == self.connection or known.name != call.name:
            return None
        remembered = known.open or known.answer is not None
        return known if remembered and _are_same(known.args, _comparable(call)) else None

    def _queue(self, call: LiveCall) -> None:
        """Queue the response of a call, also if it was sent before."""
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

    def _find_by_wire_id(self, wire_id: str | None) -> tuple[str, ...]:
        """Return our ids of earlier calls with this wire id; a cancelled call keeps only its id.

        The tools decide which of them was the same call, and whether it may run again.
        """
        if wire_id is None or wire_id not in self._calls:
            return ()
        again = f"{wire_id}~"
        return tuple(each for each in self._calls if each == wire_id or each.startswith(again))

    def _forget_old(self) -> None:
        """Drop the oldest sent responses: without resumption handles, `safe` releases none."""
        delivered = [c for c in self._unsettled.values() if c.delivered is not None]
        for call in delivered[: max(len(delivered) - _KEPT_ANSWERS, 0)]:
            self._settle(call)

    def _settle(self, call: LiveCall) -> None:
        """Finish a call, and keep the last few responses in case the model repeats a call."""
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


def _take_batch(calls: Iterable[LiveCall]) -> list[LiveCall]:
    """Return the calls of the next message: the first that needs its own message, else all."""
    ready = list(calls)
    return next(([call] for call in ready if call.alone), ready)
