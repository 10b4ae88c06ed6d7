"""An adapter over a stream of parts: calls are put in, answers are read out."""

import abc
import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any, Self

from genai_processors import streams

from tests.benchmarks.adapter import Part


def is_answer(part: Part) -> bool:
    """Whether this is a final answer (`FunctionCalling` says "running" first)."""
    response = part.function_response
    return response is not None and not response.will_continue


class StreamAdapter(abc.ABC):
    """Drives `stream` by a queue, with nothing between the queue and the reader.

    Upstream's processors need a `context` around: `workload.run` opens one.
    """

    def __init__(self) -> None:
        self._input: asyncio.Queue[Part | None] = asyncio.Queue()
        self._output: AsyncIterator[Part]

    async def __aenter__(self) -> Self:
        self._output = aiter(self.stream(streams.dequeue(self._input)))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._input.put_nowait(None)
        async for _ in self._output:
            pass

    @abc.abstractmethod
    def stream(self, parts: AsyncIterable[Part]) -> AsyncIterable[Part]:
        """A session: parts in, parts and answers out."""

    async def answer(self, calls: Sequence[Part]) -> Sequence[Any]:
        """Sends the calls at once and returns when all are answered."""
        for call in calls:
            self._input.put_nowait(call)
        answers: list[Part] = []
        while len(answers) < len(calls):
            part = await anext(self._output)
            if is_answer(part):
                answers.append(part)
        return answers

    def value(self, answer: Any) -> Any:
        """What the tool returned."""
        return answer.function_response.response.get("result")
