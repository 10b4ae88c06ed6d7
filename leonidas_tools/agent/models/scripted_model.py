"""A model with scripted answers, for tests."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.agent.models.model import (
    DEFAULT_PARAMETERS,
    Answer,
    Chunk,
    Declared,
    End,
    Message,
    ModelCall,
    ModelParameters,
    TextDelta,
    Usage,
    estimated_tokens,
    ids_in,
    new_id,
)
from leonidas_tools.calls.records import record
from leonidas_tools.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

ScriptedAnswer: TypeAlias = "str | Mapping[str, Any] | Answer | BaseException | float"
ScriptedStep: TypeAlias = "ScriptedAnswer | Callable[[Sequence[Message]], ScriptedAnswer]"


@record
class Asked:
    """A request that the model received.

    Args:
        messages: The conversation.
        tools: The names of the declared functions.
        parameters: The parameters of the answer.
    """

    messages: Sequence[Message]
    tools: Sequence[str]
    parameters: ModelParameters


class ScriptedModel:
    """A model that returns prepared answers one after another, and records its requests.

    Args:
        answers: The answers. Each is a text; a mapping with `text`, `thought` and `calls` (each a
            pair of name and arguments, or a mapping of `name` and `arguments`); an `Answer`; an
            exception to raise; a number of seconds to wait before an empty answer, such as a long
            wait for a server that hangs; or a function of the messages that returns one of these.
        name: The name of the model.
        calls_functions: Whether the model supports function calling; if not, it writes calls.
        repeat: Whether the script starts over at its end; otherwise one more request is an error.

    Example:
        >>> import asyncio
        >>> from leonidas_tools.agent.models import answer
        >>> model = ScriptedModel([{"calls": [("add", {"a": 1, "b": 2})]}, "It is 3."])
        >>> asyncio.run(answer(model, [Message.user("1 + 2?")])).calls[0].name
        'add'
        >>> asyncio.run(answer(model, [Message.user("1 + 2?")])).text
        'It is 3.'
    """

    def __init__(
        self,
        answers: Iterable[ScriptedStep],
        *,
        name: str = "scripted",
        calls_functions: bool = True,
        repeat: bool = False,
    ) -> None:
        self.name = name
        self.calls_functions = calls_functions
        self.asked: list[Asked] = []
        """The requests so far."""
        self._answers = list(answers)
        self._repeat = repeat
        self._next = 0

    @classmethod
    def from_json(cls, text: str) -> ScriptedModel:
        """Return a model with the answers of a JSON array of texts and objects.

        Raises:
            ConfigurationError: The text is not such an array.

        Example:
            >>> ScriptedModel.from_json('["Hello."]').name
            'scripted'
        """
        try:
            answers = json.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"the script is not JSON: {error}") from None
        if not isinstance(answers, list) or not all(isinstance(e, str | dict) for e in answers):
            raise ConfigurationError("the script is not a JSON array of strings and objects")
        return cls(answers)

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[Declared] = (),
        parameters: ModelParameters = DEFAULT_PARAMETERS,
    ) -> AsyncGenerator[Chunk]:
        """Yield the next answer line by line, with its usage and its end.

        Raises:
            ModelError: The script has ended.
        """
        names = tuple(tool.name for tool in tools)
        self.asked.append(Asked(messages=tuple(messages), tools=names, parameters=parameters))
        said = self._take(messages)
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, int | float):
            await asyncio.sleep(said)
            said = ""
        made = said if isinstance(said, Answer) else _answer(said, ids_in(messages))
        if made.thought:
            yield TextDelta(made.thought, is_thought=True)
        for word in made.text.splitlines(keepends=True):
            yield TextDelta(word)
        for call in made.calls:
            yield call
        yield made.usage if made.usage.total else _usage(messages, made)
        yield End(made.end)

    def _take(self, messages: Sequence[Message]) -> ScriptedAnswer:
        if self._repeat and self._next == len(self._answers):
            self._next = 0
        if self._next >= len(self._answers):
            raise ModelError(
                f"the script has {len(self._answers)} answers, but another one was requested: "
                "add it, or pass repeat=True",
                reason="request",
            )
        step = self._answers[self._next]
        self._next += 1
        return step(messages) if callable(step) else step


def _answer(said: str | Mapping[str, Any], taken: set[str]) -> Answer:
    if isinstance(said, str):
        return Answer(text=said)
    calls = list[ModelCall]()
    for call in said.get("calls", ()):
        is_named = isinstance(call, dict)
        name, arguments, *more = (call["name"], call["arguments"]) if is_named else call
        identifier = new_id(more[0] if more else f"call_{len(calls)}", taken)
        taken.add(identifier)
        calls.append(ModelCall(id=identifier, name=name, arguments=arguments))
    return Answer(text=said.get("text", ""), thought=said.get("thought", ""), calls=calls)


def _usage(messages: Sequence[Message], made: Answer) -> Usage:
    return Usage(
        input_tokens=sum(estimated_tokens(each.text) for each in messages),
        output_tokens=estimated_tokens(made.text + made.thought),
    )
