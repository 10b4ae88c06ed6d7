"""An adapter over a stream of parts: calls are put in, answers are read out."""

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any, Self

from genai_processors import context, streams

from tests.benchmarks.adapter import Part


def is_answer(part: Part) -> bool:
    """Whether this is a final answer (`FunctionCalling` says "running" first)."""
    response = part.function_response
    return response is not None and not response.will_continue


class StreamAdapter:
    """Drives `stream` by a queue, with nothing between the queue and the reader."""

    def __init__(self) -> None:
        self._input: asyncio.Queue[Part | None] = asyncio.Queue()
        self._output: AsyncIterator[Part]
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(context.context())
        self._output = aiter(self.stream(streams.dequeue(self._input)))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._input.put_nowait(None)
        async for _ in self._output:
            pass
        await self._stack.aclose()

    def stream(self, parts: AsyncIterable[Part]) -> AsyncIterable[Part]:
        """A session: parts in, parts and answers out."""
        raise NotImplementedError

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
