"""Check the messages of the client against the protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leonidas_tools.simulator.refusals import (
    INVALID_ARGUMENT,
    declaration_refusals,
    response_refusals,
    setup_refusals,
)
from leonidas_tools.simulator.wire import CLIENT_FIELDS, Message, fields, is_base64, objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leonidas_tools.simulator.generations import Quirks
    from leonidas_tools.simulator.ledger import CallLedger
    from leonidas_tools.simulator.refusals import Refused

INVALID: Final = 1007
POLICY: Final = 1008
TOO_BIG: Final = 1009
INTERNAL: Final = 1011
STEP_FAILED: Final = 4000
"""Private close code, which the real server never sends: the scenario has failed."""
SCHEDULINGS: Final = ("SILENT", "WHEN_IDLE", "INTERRUPT")
MEBIBYTE: Final = 1 << 20
_MEDIA_CHUNKS: Final = (
    "realtime_input.media_chunks is deprecated. Use audio, video, or text instead."
)

_REALTIME_FIELDS: Final = frozenset(
    {
        "activityEnd",
        "activityStart",
        "audio",
        "audioStreamEnd",
        "mediaChunks",
        "text",
        "video",
    }
)


def field_of(message: Message) -> tuple[str, Message]:
    """Return the one top-level field of a client's message, and its value.

    Raises:
        ValueError: There is not exactly one, or it is unknown, or not an object.

    Example:
        >>> field_of({"tool_response": {"function_responses": []}})
        ('toolResponse', {'functionResponses': []})
    """
    if len(message) != 1:
        names = ", ".join(map(repr, message)) or "none"
        raise ValueError(f"a message must have exactly one top-level field; this one has {names}")
    (name, body) = next(iter(message.items()))
    if camel_name(name) not in CLIENT_FIELDS:
        raise ValueError(f"unknown top-level field {name!r}; known are {', '.join(CLIENT_FIELDS)}")
    if not isinstance(body, dict):
        text = f"{name!r} must be an object, not {type(body).__name__}"
        raise ValueError(text)  # noqa: TRY004 -- one kind of error for all input
    return camel_name(name), fields(body)


def camel_name(name: str) -> str:
    """Return the camel-case name of one field."""
    return next(iter(fields({name: None})))


def problems(kind: str, body: Message, quirks: Quirks) -> Iterator[str]:
    """Yield the problems with the body of a message, one sentence each."""
    if kind == "realtimeInput":
        yield from _realtime_problems(body, quirks)
    elif kind == "clientContent":
        yield from _content_problems(body)
    elif kind == "toolResponse" and not objects(body.get("functionResponses")):
        yield "a tool response without functionResponses"


def response_problem(response: Message, quirks: Quirks) -> str | None:
    """Return the problem with the form of one function response; `None` if there is none.

    Example:
        >>> from leonidas_tools.simulator import Quirks
        >>> response_problem({"id": "c1", "name": "f", "response": [1]}, Quirks())
        "the response to call 'c1' must be an object, not list"
    """
    call_id, name = response.get("id"), response.get("name")
    if quirks.call_ids and not call_id:
        return f"a function response of {name!r} has no id"
    if call_id is not None and not isinstance(call_id, str):
        return f"the id of a function response must be a string, not {type(call_id).__name__}"
    if not isinstance(name, str) or not name:
        return f"the function response to call {call_id!r} has no name"
    if not isinstance(response.get("response"), dict):
        kind = type(response.get("response")).__name__
        return f"the response to call {call_id!r} must be an object, not {kind}"
    return _options_problem(response)


def response_options(response: Message) -> str:
    """Return which of `scheduling` and `willContinue` a function response sets."""
    names = ("scheduling", "willContinue")
    return " and ".join(name for name in names if response.get(name) is not None)


def _options_problem(response: Message) -> str | None:
    call_id = response.get("id")
    scheduling, more = response.get("scheduling"), response.get("willContinue")
    if scheduling is not None and scheduling not in SCHEDULINGS:
        return f"the scheduling of call {call_id!r} is {', '.join(SCHEDULINGS)}, not {scheduling!r}"
    if more is not None and not isinstance(more, bool):
        return f"the willContinue of call {call_id!r} is true or false, not {more!r}"
    return None


def _realtime_problems(body: Message, quirks: Quirks) -> Iterator[str]:
    for name in body.keys() - _REALTIME_FIELDS:
        yield f"unknown field {name!r} in realtimeInput"
    if quirks.refuse_media_chunks and "mediaChunks" in body:
        yield _MEDIA_CHUNKS
    for name in ("audio", "video", "mediaChunks"):
        for blob in objects(body.get(name)):
            if not is_base64(blob.get("data")):
                yield f"the data of realtimeInput.{name} is not base64"


def _content_problems(body: Message) -> Iterator[str]:
    for turn in objects(body.get("turns")):
        parts = objects(turn.get("parts"))
        if all(part.keys() <= {"text", "thought"} and not part.get("text") for part in parts):
            yield "an empty turn: its parts are empty, yet it interrupts the model"
        for part in parts:
            blob = fields(part.get("inlineData"))
            if blob and not is_base64(blob.get("data")):
                yield "the data of an inlineData part is not base64"


def functions_in(tools: Any) -> dict[str, Message]:
    """Return the functions declared in a list of tools, by name."""
    return {
        str(function.get("name")): function
        for tool in objects(tools)
        for function in objects(tool.get("functionDeclarations"))
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Breach:
    """A violation of the protocol that a check has found; a strict server closes with `code`."""

    reason: str
    data: Any
    code: int = INVALID
    words: str | None = None
    """The close reason of the real server, if it is known; else `reason` is sent."""


def _breaches(refused: Iterable[Refused], data: Any) -> Iterator[Breach]:
    for each in refused:
        yield Breach(reason=each.reason, data=data, words=each.words)


class ProtocolChecker:
    """Checks the messages of one connection, in the order in which they arrive."""

    def __init__(self, number: int, *, quirks: Quirks, ledger: CallLedger) -> None:
        self._number = number
        self._quirks = quirks
        self._ledger = ledger
        self._begun = False
        self._earlier_calls: frozenset[str | None] = frozenset()

    def check_setup(self, body: Message, path: str) -> Iterator[Breach]:
        """Yield the violations in the setup; `path` is that of the HTTP request."""
        return _breaches(setup_refusals(body, path, self._quirks), {"setup": body})

    def note_resumption(self, earlier_calls: Iterable[str | None]) -> None:
        """Record that the session began on an earlier connection, which has made these calls."""
        self._begun = True
        self._earlier_calls = frozenset(earlier_calls)

    def check(self, kind: str, body: Message) -> Iterator[Breach]:
        """Yield the violations in a message; some depend on earlier messages."""
        data = {kind: body}
        if kind == "setup":
            yield Breach(reason="a second setup", data=data)
        for problem in problems(kind, body, self._quirks):
            yield Breach(reason=problem, data=data)
        if kind == "toolResponse":
            for response in objects(body.get("functionResponses")):
                yield from self._check_response(response)
        elif kind == "contextUpdate":
            yield from self._check_update(body, data)
        elif kind == "realtimeInput" and self._audio_is_blocked(body):
            reason = "audio while a BLOCKING call is unanswered"
            yield Breach(reason=reason, data=data, code=POLICY)
        elif kind == "clientContent" and self._begun and self._quirks.seed_only_client_content:
            reason = "clientContent in the middle of a session: send realtimeInput.text"
            yield Breach(reason=reason, data=data, words=INVALID_ARGUMENT)
        self._note(kind, body)

    def _note(self, kind: str, body: Message) -> None:
        """Record the first turn, which begins a session; earlier turns are its history."""
        turn_ends = kind == "clientContent" and bool(body.get("turnComplete"))
        self._begun = self._begun or turn_ends or kind in {"realtimeInput", "toolResponse"}

    def _check_response(self, response: Message) -> Iterator[Breach]:
        if problem := response_problem(response, self._quirks):
            yield Breach(reason=problem, data=response)
            return
        refused = list(response_refusals(response, self._quirks))
        yield from _breaches(refused, response)
        if response.get("id") in self._earlier_calls and "error" in response["response"]:
            return  # it ends the wait for a call of a lost connection; other servers ignore it
        call = self._ledger.awaited_by(self._number, response)
        if problem := self._ledger.answered(self._number, response):
            yield Breach(reason=problem, data=response)
        options = response_options(response)
        plain = self._quirks.plain_blocking_answers and not refused
        if call and call.blocking and options and plain:
            name = f"call {call.id!r} of {call.name!r}"
            reason = f"{name} is BLOCKING; its response must not set {options}"
            yield Breach(reason=reason, data=response)

    def _check_update(self, body: Message, data: Message) -> Iterator[Breach]:
        if not self._quirks.takes_context_update:
            reason = (
                "this model does not support contextUpdate; reconnect to change tools or "
                "instruction"
            )
            yield Breach(reason=reason, data=data)
        tools = fields(body.get("tools")).get("tools")
        refused = declaration_refusals(tools, self._quirks, "context_update.tools.tools")
        yield from _breaches(refused, data)

    def _audio_is_blocked(self, body: Message) -> bool:
        return (
            self._quirks.audio_blocked_while_pending
            and bool(body.keys() & {"audio", "mediaChunks"})
            and any(call.pending and call.blocking for call in self._ledger.of(self._number))
        )
