"""The interface of a language model, with its messages, parameters and answers."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from leonidas_tools.calls.records import record
from leonidas_tools.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

_NOTHING: Mapping[str, Any] = {}
_CHARACTERS_OF_A_TOKEN = 4
_ID_CHARACTERS = 9
_THOUGHT_END = re.compile(r"(?<![`'\"])</think(?:ing)?>")
_DECORATION = re.compile(
    r"\A(?:functions?|tools?|default_api)[.:]|(?:<[|\uff5c].*|:\d+)\Z", re.DOTALL
)

_DECODER = json.JSONDecoder(strict=False)

MAX_ANSWER_CHARACTERS = 2_000_000


class Declared(Protocol):
    """A function declaration; `ToolRuntime.declared` returns such objects."""

    @property
    def name(self) -> str:
        """Return the name of the function."""

    @property
    def description(self) -> str:
        """Return the description of the function for the model."""

    @property
    def parameters(self) -> Any:
        """Return the JSON Schema of the arguments, an object."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionDeclaration:
    """A function declaration for use without a `ToolRuntime`.

    Args:
        name: The name of the function.
        description: The description of the function for the model.
        parameters: The JSON Schema of the arguments, an object.
    """

    name: str
    description: str = ""
    parameters: Any = field(default_factory=lambda: {"type": "object", "properties": {}})


@record
class ModelCall:
    """A function call of a model.

    Args:
        id: The id of the call, unique in its conversation.
        name: The name of the function.
        arguments: The arguments by parameter name, or the text of the model if it is not a JSON
            object; `parser.read_arguments` parses such text.
        signature: Opaque data of the vendor to send back with the call.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=lambda: _NOTHING)
    signature: bytes | None = field(default=None, repr=False)


@record
class Message:
    """A message of a conversation with a model.

    Args:
        role: The author: `system`, `user`, `assistant` (the model) or `tool` (a result).
        text: The text; for a result, usually JSON.
        calls: The calls of an `assistant` message.
        call_id: The id of the call of a result.
        name: The function of that call.
        thought: The reasoning before the calls of an `assistant` message, which some servers
            demand back.

    Example:
        >>> Message.user("What time is it?")
        Message(role='user', text='What time is it?', calls=(), call_id=None, name=None)
    """

    role: Role
    text: str = ""
    calls: Sequence[ModelCall] = ()
    call_id: str | None = None
    name: str | None = None
    thought: str = field(default="", repr=False)

    @classmethod
    def system(cls, text: str) -> Message:
        """Return a system instruction."""
        return cls(role="system", text=text)

    @classmethod
    def user(cls, text: str) -> Message:
        """Return a message to the model."""
        return cls(role="user", text=text)

    @classmethod
    def assistant(cls, text: str, calls: Sequence[ModelCall] = (), thought: str = "") -> Message:
        """Return a message of the model."""
        return cls(role="assistant", text=text, calls=tuple(calls), thought=thought)

    @classmethod
    def result(cls, call: ModelCall, text: str) -> Message:
        """Return the result of a call."""
        return cls(role="tool", text=text, call_id=call.id, name=call.name)


@record
class ModelParameters:
    """Parameters of an answer; `None` leaves the choice to the server.

    Args:
        temperature: The sampling temperature.
        top_p: The probability mass of the tokens to sample from.
        max_output_tokens: The maximum length of the answer, in tokens.
        seed: The seed for a reproducible answer, if the server supports seeds.
        stop: Texts that end the answer.
        response_schema: The JSON Schema that the whole answer must match, if the server can
            constrain answers.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    response_schema: Mapping[str, Any] | None = field(default=None, hash=False)


DEFAULT_PARAMETERS = ModelParameters()


class EndReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"
    REFUSED = "refused"


class TextDelta(NamedTuple):
    """A chunk of the text of an answer.

    Args:
        text: The text.
        is_thought: Whether the text is the model's reasoning, which is not part of the answer.
    """

    text: str
    is_thought: bool = False


@record
class Usage:
    """The token usage of answers.

    Args:
        input_tokens: The number of tokens of the messages.
        output_tokens: The number of tokens of the answers, including reasoning.
        is_estimated: Whether some counts are estimated, because a server does not report them.

    Example:
        >>> (Usage(input_tokens=10, output_tokens=2) + Usage(input_tokens=3)).total
        15
    """

    input_tokens: int = 0
    output_tokens: int = 0
    is_estimated: bool = False

    @property
    def total(self) -> int:
        """Return the total number of tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            is_estimated=self.is_estimated or other.is_estimated,
        )


class End(NamedTuple):
    """The end of an answer.

    Args:
        reason: Why the answer ended.
    """

    reason: EndReason = EndReason.STOP


class Restart(NamedTuple):
    """A retry after a failed attempt: the answer starts over, and earlier chunks are void.

    Args:
        error: The error message of the failed attempt, without secrets.
    """

    error: str


Chunk: TypeAlias = TextDelta | ModelCall | Usage | End | Restart
"""A chunk of an answer; each call is one chunk."""


@runtime_checkable
class Model(Protocol):
    """A language model.

    Attributes:
        name: The name of the model.
        calls_functions: Whether the model supports function calling; otherwise its prompt
            describes the tools, and its calls are parsed from its text.
    """

    @property
    def name(self) -> str:
        """Return the name of the model."""

    @property
    def calls_functions(self) -> bool:
        """Return whether the model supports function calling."""

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[Declared] = (),
        parameters: ModelParameters = DEFAULT_PARAMETERS,
    ) -> AsyncGenerator[Chunk]:
        """Yield an answer in chunks, with its usage and its end.

        Args:
            messages: The conversation so far.
            tools: The functions that the model may call.
            parameters: The parameters of the answer.

        Raises:
            ModelError: There is no answer; the error says why.
        """


@record
class Answer:
    """A complete answer.

    Args:
        text: The text of the answer.
        thought: The reasoning of the model, if the server sends it.
        calls: The function calls.
        usage: The token usage.
        end: Why the answer ended.
    """

    text: str = ""
    thought: str = ""
    calls: Sequence[ModelCall] = ()
    usage: Usage = field(default_factory=Usage)
    end: EndReason = EndReason.STOP


class Budget:
    """A limit of tokens and calls, with those used so far.

    Args:
        max_tokens: The maximum number of tokens; `None` for no limit.
        max_calls: The maximum number of calls; `None` for no limit.
        outer: The enclosing budget, which also counts the tokens of this budget.

    Example:
        >>> whole = Budget(100)
        >>> part = Budget(outer=whole)
        >>> part.add(Usage(input_tokens=70, output_tokens=40))
        >>> part.used.total, part.left, whole.is_spent
        (110, 0, True)
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        *,
        max_calls: int | None = None,
        outer: Budget | None = None,
    ) -> None:
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens must be above 0, or None, not {max_tokens!r}")
        self.max_tokens = max_tokens
        self.max_calls = max_calls
        self.outer = outer
        self.used = Usage()
        """The tokens used so far."""
        self.calls = 0
        """The number of calls so far."""

    @property
    def left(self) -> int | None:
        """Return the number of tokens left; `None` for no limit."""
        outer = None if self.outer is None else self.outer.left
        if self.max_tokens is None:
            return outer
        own = max(self.max_tokens - self.used.total, 0)
        return own if outer is None else min(own, outer)

    @property
    def is_spent(self) -> bool:
        """Return whether no token is left."""
        return self.left == 0

    @property
    def may_call(self) -> bool:
        """Return whether a call is left."""
        is_left = self.max_calls is None or self.calls < self.max_calls
        return is_left and (self.outer is None or self.outer.may_call)

    def limit(self, parameters: ModelParameters) -> ModelParameters:
        """Return the parameters of an answer within the tokens that are left."""
        left = self.left
        if left is None:
            return parameters
        most = min(left, parameters.max_output_tokens or left)
        return replace(parameters, max_output_tokens=most)

    def add(self, usage: Usage) -> None:
        """Count the tokens of an answer."""
        self.used += usage
        if self.outer is not None:
            self.outer.add(usage)

    def add_call(self) -> None:
        """Count a call."""
        self.calls += 1
        if self.outer is not None:
            self.outer.add_call()


async def answer(
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[Declared] = (),
    parameters: ModelParameters = DEFAULT_PARAMETERS,
    *,
    on_chunk: Callable[[Chunk], None] | None = None,
) -> Answer:
    """Return a complete answer of a model; estimate its tokens if the server does not count them.

    Args:
        model: The model.
        messages: The conversation so far.
        tools: The functions that the model may call.
        parameters: The parameters of the answer.
        on_chunk: Called with each chunk as it arrives.

    Raises:
        ModelError: There is no answer; the error says why.
    """
    attempt = list[Chunk]()
    spent, characters = Usage(), 0
    chunks = model.stream(messages, tools, parameters)
    try:  # cheaper than `aclosing`, as each turn of an agent runs this
        async for chunk in chunks:
            if isinstance(chunk, Restart):
                spent += _usage(attempt, None)
                attempt, characters = [], 0
            else:
                attempt.append(chunk)
                characters += _length(chunk)
            if characters > MAX_ANSWER_CHARACTERS:
                raise ModelError(
                    f"the answer is longer than {MAX_ANSWER_CHARACTERS} characters: "
                    "set max_output_tokens",
                    reason="protocol",
                )
            if on_chunk is not None:
                on_chunk(chunk)
    finally:
        await chunks.aclose()
    text, thought = _text(attempt, is_thought=False), _text(attempt, is_thought=True)
    if end := _THOUGHT_END.search(text):  # opened by the template of the server
        thought += text[: end.start()].strip().removeprefix("<think>").strip()
        text = text[end.end() :].lstrip()
    ends = [each.reason for each in attempt if isinstance(each, End)]
    return Answer(
        text=text,
        thought=thought,
        calls=tuple(each for each in attempt if isinstance(each, ModelCall)),
        usage=spent + _usage(attempt, lambda: _request_text(messages, tools)),
        end=ends[-1] if ends else EndReason.STOP,
    )


def _length(chunk: Chunk) -> int:
    if isinstance(chunk, TextDelta):
        return len(chunk.text)
    return len(str(chunk.arguments)) if isinstance(chunk, ModelCall) else 0


def _text(chunks: Sequence[Chunk], *, is_thought: bool) -> str:
    deltas = (each for each in chunks if isinstance(each, TextDelta))
    return "".join(each.text for each in deltas if each.is_thought is is_thought)


def _usage(chunks: Sequence[Chunk], asked: Callable[[], str] | None) -> Usage:
    """Return the token usage of an attempt, estimated if the server does not report it."""
    reported = [each for each in chunks if isinstance(each, Usage)]
    if reported:
        return reported[-1]
    calls = (each for each in chunks if isinstance(each, ModelCall))
    said = "".join(each.text for each in chunks if isinstance(each, TextDelta))
    said += "".join(f"{each.name}{each.arguments}" for each in calls)
    return Usage(
        input_tokens=0 if asked is None else estimated_tokens(asked()),
        output_tokens=estimated_tokens(said),
        is_estimated=True,
    )


def _request_text(messages: Sequence[Message], tools: Sequence[Declared]) -> str:
    said = (f"{each.text}{''.join(str(call) for call in each.calls)}" for each in messages)
    declared = (f"{tool.name}{tool.description}{tool.parameters}" for tool in tools)
    return "".join((*said, *declared))


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens: one per 4 ASCII characters, and one per other character.

    Example:
        >>> estimated_tokens("What time is it?"), estimated_tokens("现在几点"), estimated_tokens("")
        (4, 4, 0)
    """
    ascii_only = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-ascii_only // _CHARACTERS_OF_A_TOKEN) + len(text) - ascii_only


def ids_in(messages: Sequence[Message]) -> set[str]:
    """Return the ids of all calls in a conversation."""
    return {call.id for message in messages for call in message.calls}


def new_id(given: str | None, taken: Collection[str]) -> str:
    """Return the id of a new call: the server's id, unless another call has the same id.

    Some servers send `call_0` in every turn. Every server accepts ids of nine letters and digits.
    """
    return given if given and given not in taken else uuid.uuid4().hex[:_ID_CHARACTERS]


def strip_decoration(name: str) -> str:
    """Return the name of a function without the markup of a chat template around it.

    Example:
        >>> strip_decoration("functions.weather:0")
        'weather'
        >>> strip_decoration("weather<|channel|>commentary")
        'weather'
    """
    return _DECORATION.sub("", name)


def parse_arguments(text: str) -> Mapping[str, Any] | str:
    """Return the object of a JSON text, or the text if it is not one JSON object.

    Some servers write an empty object or `null` before the real one, or the same object twice.

    Example:
        >>> parse_arguments('{"city": "Lisbon"}'), parse_arguments('{"city": "Li')
        ({'city': 'Lisbon'}, '{"city": "Li')
        >>> parse_arguments('{}{"city": "Lisbon"}'), parse_arguments("null")
        ({'city': 'Lisbon'}, {})
    """
    found: Any = None
    body = text.strip()
    at = 0
    while at < len(body):
        try:
            value, at = _DECODER.raw_decode(body, at)
        except (ValueError, RecursionError):
            return text
        if not (value is None or isinstance(value, dict)) or (found and value and value != found):
            return text
        found = value or found
        while body[at : at + 1].isspace():
            at += 1
    return found or {}


def format_arguments(arguments: Mapping[str, Any] | str) -> str:
    r"""Return arguments as the text of a JSON object, the only form that servers accept.

    Other text is wrapped in an object, so that the model sees its own text.

    Example:
        >>> format_arguments({"city": "Lisbon"}), format_arguments("Lisb")
        ('{"city": "Lisbon"}', '{"unreadable": "Lisb"}')
    """
    return json.dumps(object_of(arguments), ensure_ascii=False, default=str)


def object_of(arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    """Return arguments as an object; wrap text that is not a JSON object in one."""
    if isinstance(arguments, str):
        parsed = parse_arguments(arguments)
        return {"unreadable": parsed} if isinstance(parsed, str) else dict(parsed)
    return dict(arguments)
