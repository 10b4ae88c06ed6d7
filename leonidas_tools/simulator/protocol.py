"""Check messages of the client, apart from which calls they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leonidas_tools.simulator.wire import CLIENT_FIELDS, Message, fields, is_base64, objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leonidas_tools.simulator.quirks import Quirks

INVALID: Final = 1007
POLICY: Final = 1008
TOO_BIG: Final = 1009
INTERNAL: Final = 1011
SCHEDULINGS: Final = ("SILENT", "WHEN_IDLE", "INTERRUPT")
MEBIBYTE: Final = 1 << 20

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
    """Return the one top-level field of a client's message, and what it holds.

    Raises:
        ValueError: There is not exactly one, or it is unknown, or not an object.

    Example:
        >>> field_of({"tool_response": {"function_responses": []}})
        ('toolResponse', {'functionResponses': []})
    """
    if len(message) != 1:
        names = ", ".join(map(repr, message)) or "none"
        raise ValueError(f"a message has exactly one top-level field; this one has {names}")
    (name, body) = next(iter(message.items()))
    if camel_name(name) not in CLIENT_FIELDS:
        raise ValueError(f"unknown top-level field {name!r}; known are {', '.join(CLIENT_FIELDS)}")
    if not isinstance(body, dict):
        text = f"{name!r} holds an object, not {type(body).__name__}"
        raise ValueError(text)  # noqa: TRY004 -- one kind of error for all input
    return camel_name(name), fields(body)


def camel_name(name: str) -> str:
    """Return the camel-case name of one field."""
    return next(iter(fields({name: None})))


def complaints(kind: str, body: Message, quirks: Quirks) -> Iterator[str]:
    """Yield what is wrong with the body of a message, one sentence each."""
    if kind == "realtimeInput":
        yield from _realtime_complaints(body, quirks)
    elif kind == "clientContent":
        yield from _content_complaints(body)
    elif kind == "toolResponse" and not objects(body.get("functionResponses")):
        yield "a tool response without functionResponses"


def setup_complaint(body: Message) -> str | None:
    """Return what is wrong with the setup, if anything."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        return "the setup names no model"
    return None


def declaration_complaints(tools: Any, quirks: Quirks) -> Iterator[str]:
    """Yield what is wrong with the declarations in a list of tools, one sentence each.

    Example:
        >>> from leonidas_tools.simulator import GENERATIONS
        >>> tools = [{"function_declarations": [{"name": "f", "behavior": "BLOCKING"}]}]
        >>> list(declaration_complaints(tools, GENERATIONS["3.8-thinking"]))
        ["'f' is declared BLOCKING; this model takes only NON_BLOCKING"]
    """
    taken = " and ".join(sorted(quirks.behaviors))
    for name, behavior in declarations(tools).items():
        if behavior is not None and behavior not in quirks.behaviors:
            hint = f"takes only {taken}" if taken else "knows no behavior"
            yield f"{name!r} is declared {behavior}; this model {hint}"


def response_complaint(response: Message, quirks: Quirks) -> str | None:
    """Return what is wrong with the form of one function response, if anything.

    Example:
        >>> from leonidas_tools.simulator import Quirks
        >>> response_complaint({"id": "c1", "name": "f", "response": [1]}, Quirks())
        "the response to call 'c1' is an object, not list"
    """
    call_id, name = response.get("id"), response.get("name")
    if quirks.call_ids and not call_id:
        return f"a function response of {name!r} has no id"
    if call_id is not None and not isinstance(call_id, str):
        return f"the id of a function response is a text, not {type(call_id).__name__}"
    if not isinstance(name, str) or not name:
        return f"the function response to call {call_id!r} has no name"
    if not isinstance(response.get("response"), dict):
        kind = type(response.get("response")).__name__
        return f"the response to call {call_id!r} is an object, not {kind}"
    return _manner_complaint(response, quirks)


def manner_of(response: Message) -> str:
    """Return which of `scheduling` and `willContinue` a function response has."""
    said = [each for each in ("scheduling", "willContinue") if response.get(each) is not None]
    return " and ".join(said)


def _manner_complaint(response: Message, quirks: Quirks) -> str | None:
    call_id = response.get("id")
    scheduling, more = response.get("scheduling"), response.get("willContinue")
    if scheduling is not None and not quirks.takes_scheduling:
        return f"the response to call {call_id!r} says scheduling, which this server does not take"
    if more is not None and not quirks.takes_will_continue:
        return (
            f"the response to call {call_id!r} says willContinue, which this server does not take"
        )
    if scheduling is not None and scheduling not in SCHEDULINGS:
        return f"the scheduling of call {call_id!r} is {', '.join(SCHEDULINGS)}, not {scheduling!r}"
    if more is not None and not isinstance(more, bool):
        return f"the willContinue of call {call_id!r} is true or false, not {more!r}"
    return None


def _realtime_complaints(body: Message, quirks: Quirks) -> Iterator[str]:
    for name in body.keys() - _REALTIME_FIELDS:
        yield f"unknown field {name!r} in realtimeInput"
    if quirks.refuse_media_chunks and "mediaChunks" in body:
        yield "mediaChunks is deprecated: send audio, video or text"
    for name in ("audio", "video", "mediaChunks"):
        for blob in objects(body.get(name)):
            if not is_base64(blob.get("data")):
                yield f"the data of realtimeInput.{name} is not base64"


def _content_complaints(body: Message) -> Iterator[str]:
    for turn in objects(body.get("turns")):
        parts = objects(turn.get("parts"))
        if all(part.keys() <= {"text", "thought"} and not part.get("text") for part in parts):
            yield "an empty turn: its parts say nothing, yet it interrupts the model"
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


def declarations(tools: Any) -> Mapping[str, str | None]:
    """Return the functions declared in a list of tools, each with its behavior if it has one.

    Example:
        >>> declarations([{"function_declarations": [{"name": "f", "behavior": "NON_BLOCKING"}]}])
        {'f': 'NON_BLOCKING'}
    """
    return {name: behavior_of(function) for name, function in functions_in(tools).items()}


def behavior_of(function: Message) -> str | None:
    """Return what a declaration says of its behavior, if anything."""
    behavior = function.get("behavior")
    return None if behavior is None or behavior == "UNSPECIFIED" else str(behavior)
