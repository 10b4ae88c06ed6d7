"""Parts with calls and events; `answers` has the parts with results.

A part and its metadata may be built from untrusted JSON. So the metadata that our stages write is
recognised by type: values that JSON can create (texts, numbers, lists, dictionaries) never count.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, TypeVar

from genai_processors import context as context_lib
from genai_processors.content_api import ProcessorPart
from google.genai import types
from pydantic import BaseModel

from leonidas_tools.calls.call import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.calls.events import ToolEvent
    from leonidas_tools.runtime.executor import Executor

M = TypeVar("M", bound=BaseModel)

TOOL_CALL = "tool_call"
"""Metadata key of the `ToolCall` that the registry attaches to a part."""
TOOL_EXECUTOR = "tool_executor"
"""Metadata key of the `Executor` that runs the call."""
TOOL_CLAIM = "tool_claim"
"""Metadata key of the `Claim` on the call, which all copies of its part share."""
REPEATS = "repeats"
"""Metadata key of the ids under which a resumed session may have made a call before."""
TOOL_EVENT = "tool_event"
"""Metadata key that marks a status part as an event of a call; only a `StatusPart` is one."""

_ATTACHED = (TOOL_CALL, TOOL_EXECUTOR, TOOL_CLAIM)
_NOTHING: dict[str, Any] = {}


def metadata_of(part: ProcessorPart) -> Mapping[str, Any]:
    """Return the metadata of a part, or an empty mapping if the metadata is no dictionary."""
    metadata: object = part.metadata
    # Comparing the type first is faster, here and below: every stage does this for every part.
    return metadata if type(metadata) is dict or isinstance(metadata, dict) else _NOTHING


def call_id(part: ProcessorPart) -> str | None:
    """Return the server's id of a call, from the call or, as in Live sessions, the metadata."""
    call = part.part.function_call
    if call is not None and call.id:
        return call.id
    identifier = metadata_of(part).get("id")
    return identifier if isinstance(identifier, str) and identifier else None


def earlier_ids(part: ProcessorPart) -> tuple[str, ...]:
    """Return the ids under which a resumed session may have made the call before."""
    ids = metadata_of(part).get(REPEATS)
    return ids if isinstance(ids, tuple) else ()  # which JSON cannot make


def cancelled_id(part: ProcessorPart) -> str | None:
    """Return the id of the call that the part cancels, if it cancels one."""
    if part.function_response is None:
        return None
    identifier: object = part.tool_cancellation
    return identifier if isinstance(identifier, str) and identifier else None


def attached(part: ProcessorPart) -> ToolCall | None:
    """Return the call that the registry has attached to the part."""
    call = metadata_of(part).get(TOOL_CALL)
    return call if type(call) is ToolCall or isinstance(call, ToolCall) else None


def executor_of(part: ProcessorPart) -> Executor | None:
    """Return the executor of the call that the registry has attached to the part."""
    executor = metadata_of(part).get(TOOL_EXECUTOR)
    if executor is None:
        return None
    from leonidas_tools.runtime.executor import Executor

    return executor if type(executor) is Executor or isinstance(executor, Executor) else None


class Claim:
    """A claim on a call, by the stage that answers it."""

    taken = False


def claim(part: ProcessorPart) -> bool:
    """Claim the call that is attached to a part, and return `False` if another stage has.

    Only the stage that claims a call answers it. The copies of a part that upstream's parallel
    processors make share one claim.
    """
    claimed = metadata_of(part).get(TOOL_CLAIM)
    if not isinstance(claimed, Claim):
        return True
    was_taken, claimed.taken = claimed.taken, True
    return not was_taken


class CallPart(ProcessorPart):
    """A copy of a function-call part with its `ToolCall` in the metadata and its id in the call."""

    def __init__(self, part: ProcessorPart, call: ToolCall, executor: object) -> None:
        self._original = part.part
        given = metadata_of(part)
        claimed = given.get(TOOL_CLAIM)
        if not isinstance(claimed, Claim):  # else a copy, which shares the claim
            claimed = Claim()
        attached = {TOOL_CALL: call, TOOL_EXECUTOR: executor, TOOL_CLAIM: claimed}
        self._metadata = {**given, **attached}
        self._mimetype = part.mimetype
        self._role = part.role
        self._substream_name = part.substream_name

    def pin(self, call: ToolCall) -> None:
        """Replace the attached call."""
        self._metadata[TOOL_CALL] = call

    @functools.cached_property
    def _part(self) -> types.Part:  # type: ignore[override]  # a field of the parent, read lazily
        """Return the part with the id in the call, built when code outside our stages reads it."""
        call = self._metadata[TOOL_CALL]
        identifier = call.given_id or call.id
        function_call = self._original.function_call
        assert function_call is not None
        if function_call.id == identifier:
            return self._original
        restored = function_call.model_copy(update={"id": identifier})
        return self._original.model_copy(update={"function_call": restored})


def without_call(part: ProcessorPart) -> ProcessorPart:
    """Return the part without the metadata that the stages attach."""
    metadata = {k: v for k, v in metadata_of(part).items() if k not in _ATTACHED}
    return ProcessorPart(
        part.part, role=part.role, substream_name=part.substream_name, metadata=metadata
    )


class StatusPart(ProcessorPart):
    """A part with a status event, created by this library.

    Its metadata can be trusted: a part that is built from JSON is never of this class.
    """


def asks_nothing(part: ProcessorPart) -> bool:
    """Return whether a part, like most, surely has no attached call and no request."""
    return type(part) is EventPart or not part.metadata


class EventPart(StatusPart):
    """An event of a call in the substream `status`; its JSON is built on first access."""

    # Every reader checks these for every part, so they do not need the JSON.
    function_call = None
    function_response = None
    tool_cancellation = None

    _mimetype = "application/json"
    _role = "user"
    _substream_name = context_lib.STATUS_STREAM

    def __init__(self, event: ToolEvent) -> None:  # the parent's would build the part at once
        self.event = event
        self._metadata = {TOOL_EVENT: True}

    def with_dropped(self, count: int) -> EventPart:
        """Return a copy with the number of events dropped before it."""
        return EventPart(self.event.with_dropped(count))

    @functools.cached_property
    def _part(self) -> types.Part:  # type: ignore[override]  # a field of the parent, read lazily
        text = json.dumps(self.event.to_json(), default=str)
        return copy_with(_text_part(), {"text": text})


@functools.cache
def _text_part() -> types.Part:
    return types.Part(text="")


def copy_with(template: M, fields: dict[str, Any]) -> M:
    """Return a copy of a model with other values, which must be valid.

    A new model would validate all values again, which takes six times as long. `model_copy` also
    copies the values that are replaced here.

    Example:
        >>> copy_with(types.Part(text=""), {"text": "Hello"}) == types.Part(text="Hello")
        True
    """
    copy = object.__new__(type(template))
    values = template.__dict__.copy()
    values.update(fields)
    _set(copy, "__dict__", values)
    _set(copy, "__pydantic_fields_set__", set(fields))
    _set(copy, "__pydantic_extra__", None)
    _set(copy, "__pydantic_private__", None)
    return copy


_set = object.__setattr__  # a model's own `__setattr__` validates


def made_part(
    part: types.Part, mimetype: str, *, role: str, metadata: dict[str, Any] | None = None
) -> ProcessorPart:
    """Return a `ProcessorPart` without the checks of its constructor, which take most of its time.

    `metadata` is not copied.
    """
    made = object.__new__(ProcessorPart)
    made._part, made._mimetype = part, mimetype
    made._metadata = {} if metadata is None else metadata
    made._role, made._substream_name = role, ""
    return made
