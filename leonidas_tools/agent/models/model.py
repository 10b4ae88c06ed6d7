"""The interface of a language model, and what goes in and comes out."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from leonidas_tools.calls.records import record
from leonidas_tools.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

_NOTHING: Mapping[str, Any] = {}
_CHARACTERS_OF_A_TOKEN = 4
_LONGEST_ANSWER = 2_000_000
_ID_CHARACTERS = 9


class Declared(Protocol):
    """The declaration of a function; `ToolRuntime.declared` returns such objects."""

    @property
    def name(self) -> str:
        """Return the name of the function."""

    @property
    def description(self) -> str:
        """Return what the function does, in words for the model."""

    @property
    def parameters(self) -> Any:
        """Return the JSON Schema of the arguments, an object."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionDeclaration:
    """The declaration of a function, for use without a `ToolRuntime`.

    Args:
        name: The name of the function.
        description: What it does, in words for the model.
        parameters: The JSON Schema of the arguments, an object.
    """

    name: str
    description: str = ""
    parameters: Any = field(default_factory=lambda: {"type": "object", "properties": {}})


@record
class ModelCall:
    """A function call that a model makes.

    Args:
        id: Identifies the call in its conversation.
        name: The name of the function.
        arguments: By parameter name, or the text that the model wrote where it is not a JSON
            object; `parser.read_arguments` reads it.
        signature: What the vendor wants back with the call, unread.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=lambda: _NOTHING)
    signature: bytes | None = field(default=None, repr=False)


@record
class Message:
    """A message of a conversation with a model.

    Args:
        role: Who says it: `system`, `user`, `assistant` (the model) or `tool` (a result).
        text: The words; of a result, JSON as a rule.
        calls: The calls that the model makes with it.
        call_id: The call that a result answers.
        name: The function of that call.

    Example:
        >>> Message.user("What time is it?")
        Message(role='user', text='What time is it?', calls=(), call_id=None, name=None)
    """

    role: Role
    text: str = ""
    calls: Sequence[ModelCall] = ()
    call_id: str | None = None
    name: str | None = None

    @classmethod
    def system(cls, text: str) -> Message:
        """Return an instruction that stands above the conversation."""
        return cls(role="system", text=text)

    @classmethod
    def user(cls, text: str) -> Message:
        """Return a message to the model."""
        return cls(role="user", text=text)

    @classmethod
    def assistant(cls, text: str, calls: Sequence[ModelCall] = ()) -> Message:
        """Return a message of the model."""
        return cls(role="assistant", text=text, calls=tuple(calls))

    @classmethod
    def result(cls, call: ModelCall, text: str) -> Message:
        """Return the result of a call."""
        return cls(role="tool", text=text, call_id=call.id, name=call.name)


@record
class ModelParameters:
    """Parameters of an answer; `None` leaves the choice to the server.

    Args:
        temperature: How freely it chooses its words.
        top_p: The share of the likeliest words it chooses from.
        max_output_tokens: How long the answer may be.
        seed: For an answer that can be repeated, where the server supports it.
        stop: Texts at which the answer ends.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    stop: Sequence[str] = ()


DEFAULT_PARAMETERS = ModelParameters()


class EndReason(StrEnum):
    """Why an answer has ended."""

    STOP = "stop"
    LENGTH = "length"
    REFUSED = "refused"


class TextDelta(NamedTuple):
    """The next piece of an answer.

    Args:
        text: The piece.
        is_thought: Whether it is the model's reasoning, which is not part of the answer.
    """

    text: str
    is_thought: bool = False


@record
class Usage:
    """The tokens that answers have taken.

    Args:
        input_tokens: Those of the messages.
        output_tokens: Those of the answers, reasoning included.
        is_estimated: Whether some of them are estimated, because a server does not count.

    Example:
        >>> (Usage(input_tokens=10, output_tokens=2) + Usage(input_tokens=3)).total
        15
    """

    input_tokens: int = 0
    output_tokens: int = 0
    is_estimated: bool = False

    @property
    def total(self) -> int:
        """Return all tokens."""
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
        reason: Why it has ended.
    """

    reason: EndReason = EndReason.STOP


class Restart(NamedTuple):
    """The answer begins once more, because the attempt failed: what came before does not count.

    Args:
        error: What went wrong, without secrets.
    """

    error: str


Chunk: TypeAlias = TextDelta | ModelCall | Usage | End | Restart
"""A piece of an answer; the calls come whole."""


@runtime_checkable
class Model(Protocol):
    """A language model.

    Attributes:
        name: The name of the model.
        calls_functions: Whether it takes declarations and makes calls; otherwise tools are
            described to it in words, and its calls are read out of its text.
    """

    @property
    def name(self) -> str:
        """Return the name of the model."""

    @property
    def calls_functions(self) -> bool:
        """Return whether it takes declarations and makes calls."""

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[Declared] = (),
        parameters: ModelParameters = DEFAULT_PARAMETERS,
    ) -> AsyncGenerator[Chunk]:
        """Yield an answer piece by piece, with its usage and its end.

        Args:
            messages: The conversation so far.
            tools: The functions it may call.
            parameters: How it is to answer.

        Raises:
            ModelError: There is no answer; the error says why.
        """


@record
class Answer:
    """A whole answer.

    Args:
        text: What the model says.
        thought: Its reasoning, where it shows any.
        calls: The functions it calls.
        usage: The tokens it has taken.
        end: Why it has ended.
    """

    text: str = ""
    thought: str = ""
    calls: Sequence[ModelCall] = ()
    usage: Usage = field(default_factory=Usage)
    end: EndReason = EndReason.STOP


class Budget:
    """Tokens and calls that may be spent, and those that are.

    Args:
        max_tokens: How many tokens; `None` for any number.
        max_calls: How many calls; `None` for any number.
        outer: The budget that this one is a part of: it is spent together with this one.

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
            raise ValueError(f"max_tokens is a number of tokens above 0, or None: {max_tokens!r}")
        self.max_tokens = max_tokens
        self.max_calls = max_calls
        self.outer = outer
        self.used = Usage()
        """Tokens and money spent so far."""
        self.calls = 0
        """Calls made so far."""

    @property
    def left(self) -> int | None:
        """Return how many tokens are left; `None` for any number."""
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
    """Return a whole answer of a model; where the server counts no tokens, estimate them.

    Args:
        model: The model.
        messages: The conversation so far.
        tools: The functions it may call.
        parameters: How it is to answer.
        on_chunk: Called with each piece as it comes.

    Raises:
        ModelError: There is no answer; the error says why.
    """
    made = _Collected()
    chunks = model.stream(messages, tools, parameters)
    try:  # rather than `aclosing`, which each turn of an agent would enter
        async for chunk in chunks:
            made.add(chunk)
            if on_chunk is not None:
                on_chunk(chunk)
    finally:
        await chunks.aclose()
    return made.answer(messages, tools)


class _Collected:
    """The pieces of an answer."""

    def __init__(self) -> None:
        self._spent: Usage | None = None
        """That of the attempts before the last."""
        self._begin()

    def _begin(self) -> None:
        self._text: list[str] = []
        self._thought: list[str] = []
        self._calls: list[ModelCall] = []
        self._usage: Usage | None = None
        self._end = EndReason.STOP
        self._characters = 0

    def add(self, chunk: Chunk) -> None:
        """Add a piece.

        Raises:
            ModelError: The answer is longer than any sensible one.
        """
        if isinstance(chunk, TextDelta):
            (self._thought if chunk.is_thought else self._text).append(chunk.text)
            self._grow(len(chunk.text))
        elif isinstance(chunk, ModelCall):
            self._calls.append(chunk)
            self._grow(len(str(chunk.arguments)))
        elif isinstance(chunk, Usage):
            self._usage = chunk
        elif isinstance(chunk, End):
            self._end = chunk.reason
        else:
            usage = self._usage or self._estimated("")
            self._spent = usage if self._spent is None else self._spent + usage
            self._begin()

    def _grow(self, characters: int) -> None:
        self._characters += characters
        if self._characters > _LONGEST_ANSWER:
            raise ModelError(
                f"the answer is longer than {_LONGEST_ANSWER} characters: set max_output_tokens",
                reason="protocol",
            )

    def _estimated(self, asked: str) -> Usage:
        calls = "".join(f"{call.name}{call.arguments}" for call in self._calls)
        said = "".join((*self._text, *self._thought, calls))
        return Usage(
            input_tokens=estimated_tokens(asked),
            output_tokens=estimated_tokens(said),
            is_estimated=True,
        )

    def answer(self, messages: Sequence[Message], tools: Sequence[Declared]) -> Answer:
        """Return the answer."""
        usage = self._usage
        if usage is None:
            usage = self._estimated(_asked(messages, tools))
        return Answer(
            text="".join(self._text),
            thought="".join(self._thought),
            calls=tuple(self._calls),
            usage=usage if self._spent is None else self._spent + usage,
            end=self._end,
        )


def _asked(messages: Sequence[Message], tools: Sequence[Declared]) -> str:
    said = (f"{each.text}{''.join(str(call) for call in each.calls)}" for each in messages)
    declared = (f"{tool.name}{tool.description}{tool.parameters}" for tool in tools)
    return "".join((*said, *declared))


def estimated_tokens(text: str) -> int:
    """Estimate how many tokens a text has: a quarter of its ASCII characters, and all others.

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
    """Return the id of a new call: the server's own, unless it has given it to another call.

    Some servers give `call_0` in every turn. Nine letters and digits are what every server takes.
    """
    return given if given and given not in taken else uuid.uuid4().hex[:_ID_CHARACTERS]
