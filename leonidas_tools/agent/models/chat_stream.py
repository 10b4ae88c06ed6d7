"""Read the streamed answers of OpenAI-compatible servers, with missing or extra fields."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leonidas_tools.agent.models.model import (
    MAX_ANSWER_CHARACTERS,
    Chunk,
    EndReason,
    ModelCall,
    TextDelta,
    Usage,
    new_id,
    parse_arguments,
    strip_decoration,
)
from leonidas_tools.agent.models.served_model import check_complete
from leonidas_tools.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping

_DONE = b"[DONE]"
_MAX_COUNT = 2**53
_MAX_LINE_BYTES = 4 * MAX_ANSWER_CHARACTERS
_REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields with the reasoning of a model; OpenAI itself does not send it."""
_END = {"length": EndReason.LENGTH, "content_filter": EndReason.REFUSED}
_ERROR_FIELDS = ("message", "error", "detail", "msg")
_OPENING = re.compile(r"(?<![`'\"\w])<think(?:ing)?>")
_CLOSING = re.compile(r"</think(?:ing)?>")
_BEGUN_TAG = re.compile(r"<[/a-z]{0,9}\Z")


async def read_events(body: AsyncIterable[bytes]) -> AsyncGenerator[Mapping[str, Any] | None]:
    """Yield the object of each server-sent event, or of a whole JSON document; `None` for the end.

    Raises:
        ModelError: The body is not JSON, or a line of it is too long.
    """
    document = list[bytes]()
    is_stream = False
    async for line in _lines(body):
        if not line.startswith(b"data:"):
            document += [] if is_stream else [line]
            continue
        is_stream = True
        data = line[5:].strip()
        if data == _DONE:
            yield None
        elif data:
            yield _parse_json(data)
    if not is_stream and (whole := b"\n".join(document).strip()):
        yield _parse_json(whole)


async def _lines(body: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    rest = list[bytes]()
    size = 0
    async for data in body:
        first, *others = data.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > _MAX_LINE_BYTES:
            raise ModelError("the server sends a line without an end", reason="protocol")
        for line in others:
            yield b"".join(rest)
            rest, size = [line], len(line)
    yield b"".join(rest)


def _parse_json(data: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
        if b"\\ud" in data.lower():  # half of a surrogate pair could not be sent back
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        return _dict(value)
    except (ValueError, RecursionError):
        raise ModelError(
            "the server's answer cannot be read: it is not JSON", reason="protocol", retryable=True
        ) from None


# Fields: a value of another type counts as absent -------------------------------------------------


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(value: Any) -> dict[str, Any]:
    return _dict(value[0]) if isinstance(value, list) and value else {}


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT
    return value if is_count else None


def _json(value: Any) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "..."  # not an object, so the call is refused


def error_text(value: Any) -> str:
    """Return the message of a server's error in any of its forms.

    Example:
        >>> error_text({"error": {"message": "too long"}}), error_text({"detail": "no"})
        ('too long', 'no')
        >>> error_text({"detail": [{"loc": ["body", "seed"], "msg": "not permitted"}]})
        "'body', 'seed': not permitted"
    """
    if isinstance(value, list):
        return "; ".join(filter(None, map(error_text, value)))
    if not isinstance(value, dict):
        return _str(value)
    text = next((t for key in _ERROR_FIELDS if (t := error_text(value.get(key)))), "")
    place = value.get("loc")  # of a validation error of FastAPI
    return f"{', '.join(map(repr, place))}: {text}" if isinstance(place, list) and place else text


# Calls in pieces ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _CallInPieces:
    """A partially received call."""

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> Mapping[str, Any] | str:
        """Return the arguments so far: text if they are not an object, or not yet."""
        return parse_arguments("".join(self.pieces))

    def whole(self) -> Mapping[str, Any] | None:
        """Return the arguments if they are a complete object."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return None
        return None if isinstance(arguments := self.arguments, str) else arguments


class CallAssembly:
    """Assembles the calls of an answer from their pieces.

    A server may leave the index out, give all calls one index, repeat the id and the name in each
    piece, or change the id, so no single field identifies the call of a piece. A piece without
    a name continues a call. A piece with a name begins another one if its index is new, if both
    names are those of tools and differ, or if the arguments of the call before it are complete.

    Args:
        known: The names of the declared functions for the API.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self.calls: list[_CallInPieces] = []
        self._known = known
        self._at: dict[int, _CallInPieces] = {}
        self._characters = 0

    def add(self, piece: Mapping[str, Any]) -> None:
        """Add a piece of a call.

        Raises:
            ModelError: The calls are too long.
        """
        function = _dict(piece.get("function"))
        identifier, name = _str(piece.get("id")), _str(function.get("name"))
        given = function.get("arguments")
        arguments = given if isinstance(given, str) else "" if given is None else _json(given)
        index = _count(piece.get("index"))
        if index is not None and (index in self._at or name or identifier):
            call = self._at.get(index)
        else:
            call = self.calls[-1] if self.calls else None
        if call is None or self._begins(call, identifier, name, arguments):
            call = _CallInPieces()
            self.calls.append(call)
        if index is not None:
            self._at[index] = call
        call.id = call.id or identifier
        if name != call.name:
            call.name = name if name in self._known else call.name + name
        if arguments:
            call.pieces.append(arguments)
        self._characters += len(name) + len(arguments) + 1
        if self._characters > MAX_ANSWER_CHARACTERS:
            raise ModelError("the calls of the answer are too long", reason="protocol")

    def _begins(self, call: _CallInPieces, identifier: str, name: str, arguments: str) -> bool:
        """Return whether a piece begins another call."""
        if not name or not call.name:
            return False
        if name != call.name:
            both_are_tools = name in self._known and call.name in self._known
            return both_are_tools or call.whole() is not None
        if identifier and call.id and identifier != call.id:
            return call.whole() is not None
        # An empty object may come before the real one, and the same object twice.
        is_object = arguments.lstrip().startswith("{")
        return is_object and bool(whole := call.whole()) and parse_arguments(arguments) != whole


# Thoughts in the text -----------------------------------------------------------------------------


class ThoughtFilter:
    """Separates thoughts in `<think>` tags from the answer, also if a tag comes in pieces.

    A closing tag whose opening one is in the template of the server stays in the text: `answer`
    makes a thought of the text before it.
    """

    def __init__(self) -> None:
        self._is_thought = False
        self._rest = ""
        self._last = ""
        """The last character before the rest, which may quote a tag."""

    def add(self, text: str) -> Iterator[TextDelta]:
        """Yield the text so far up to a begun tag."""
        self._rest += text
        while tag := (_CLOSING if self._is_thought else _OPENING).search(
            self._last + self._rest, len(self._last)
        ):
            begin, end = tag.start() - len(self._last), tag.end() - len(self._last)
            yield from self._take(begin)
            self._rest = self._rest[end - begin :]
            self._last = ""
            self._is_thought = not self._is_thought
        begun = _BEGUN_TAG.search(self._rest)
        yield from self._take(len(self._rest) if begun is None else begun.start())

    def end(self) -> Iterator[TextDelta]:
        """Yield the rest."""
        yield from self._take(len(self._rest))

    def _take(self, length: int) -> Iterator[TextDelta]:
        text, self._rest = self._rest[:length], self._rest[length:]
        if text:
            self._last = text[-1]
            yield TextDelta(text, is_thought=self._is_thought)


# The answer ---------------------------------------------------------------------------------------


class AnswerReader:
    """Reads the events of an answer.

    Args:
        own_names: The name of each declared function by its name for the API.
        taken: The ids of other calls.
    """

    def __init__(self, own_names: Mapping[str, str], taken: set[str]) -> None:
        self.reasoning_field: str | None = None
        """The field in which the server sends reasoning, if it does."""
        self._own_names = own_names
        self._taken = taken
        self._assembly = CallAssembly(own_names)
        self._thoughts = ThoughtFilter()
        self._has_text = False
        self._is_done = False
        self._end: EndReason | None = None

    def read(self, event: Mapping[str, Any] | None) -> Iterator[Chunk]:
        """Yield thoughts, text and usage at once, and collect calls for `end`.

        Raises:
            ModelError: The event is an error.
        """
        if event is None:
            self._is_done = True
            return
        if event.get("error") or event.get("object") == "error":
            text = error_text(event) or "an error without a message"
            raise ModelError(f"the server says: {text}", reason="server", retryable=True)
        choice = _first(event.get("choices"))
        # A server that does not stream sends a message.
        yield from self._delta(_dict(choice.get("delta")) or _dict(choice.get("message")))
        if finish := _str(choice.get("finish_reason")):
            self._end = self._end or _END.get(finish, EndReason.STOP)
        usage = _dict(event.get("usage"))
        counts = [_count(usage.get(key)) for key in ("prompt_tokens", "completion_tokens")]
        if any(count is not None for count in counts):
            yield Usage(input_tokens=counts[0] or 0, output_tokens=counts[1] or 0)

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[Chunk]:
        for key in _REASONING_FIELDS:
            if isinstance(thought := delta.get(key), str):
                self.reasoning_field = self.reasoning_field or key
                if thought:
                    yield TextDelta(thought, is_thought=True)
                    break  # some servers send both
        content = delta.get("content")
        for part in content if isinstance(content, list) else [{"text": content}]:
            if text := _str(_dict(part).get("text")):
                yield from self._text(text)
        if refusal := _str(delta.get("refusal")):
            self._end = EndReason.REFUSED
            yield from self._text(refusal)
        calls = delta.get("tool_calls")
        for piece in calls if isinstance(calls, list) else ():
            self._assembly.add(_dict(piece))

    def _text(self, text: str) -> Iterator[Chunk]:
        for delta in self._thoughts.add(text):
            self._has_text = self._has_text or not delta.is_thought
            yield delta

    def end(self, *, is_whole: bool) -> Iterator[Chunk]:
        """Yield the calls and the end of the answer.

        Args:
            is_whole: Whether the body of the response is known to be complete.

        Raises:
            ModelError: The stream ended before the answer was complete.
        """
        calls = [call for call in self._assembly.calls if call.name]
        for delta in self._thoughts.end():
            self._has_text = self._has_text or not delta.is_thought
            yield delta
        if self._end is None and self._is_complete(calls, is_whole=is_whole):
            self._end = EndReason.STOP
        end = check_complete(self._end)
        for call in calls:
            identifier = new_id(call.id, self._taken)
            self._taken.add(identifier)
            name = self._own_names.get(call.name) or self._own_names.get(
                strip_decoration(call.name)
            )
            yield ModelCall(id=identifier, name=name or call.name, arguments=call.arguments)
        yield end

    def _is_complete(self, calls: list[_CallInPieces], *, is_whole: bool) -> bool:
        """Return whether an answer without `finish_reason` is complete.

        Without an end mark, a call must be complete by its arguments.
        """
        if self._is_done:
            return self._has_text or bool(calls)
        return is_whole and bool(self._has_text or calls) and all(call.whole() for call in calls)
