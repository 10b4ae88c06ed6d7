"""The floor: a dict lookup, a task, an await, and upstream's `from_function_response`."""

import asyncio
import inspect
from collections.abc import AsyncIterable, Sequence
from typing import Any

from genai_processors import content_api

from tests.benchmarks.adapter import Functions, Part
from tests.benchmarks.streaming import StreamAdapter


class Floor(StreamAdapter):
    """Bare asyncio: no validation, no limits, no bookkeeping."""

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self._functions = functions

    async def answer(self, calls: Sequence[Part]) -> Sequence[Any]:
        """A task for each call, awaited in turn."""
        tasks = [asyncio.create_task(self._run(call)) for call in calls]
        return [await task for task in tasks]

    async def stream(self, parts: AsyncIterable[Part]) -> AsyncIterable[Part]:
        """A task for each call, beside the stream."""
        output: asyncio.Queue[Part | None] = asyncio.Queue()
        feeder = asyncio.create_task(self._feed(parts, output))
        while (part := await output.get()) is not None:
            yield part
        await feeder

    async def _feed(self, parts: AsyncIterable[Part], output: asyncio.Queue[Part | None]) -> None:
        running: set[asyncio.Task[Part]] = set()

        def done(task: asyncio.Task[Part]) -> None:
            running.discard(task)
            output.put_nowait(task.result())

        async for part in parts:
            if part.function_call is None:
                output.put_nowait(part)
                continue
            task = asyncio.create_task(self._run(part))
            running.add(task)
            task.add_done_callback(done)
        if running:
            await asyncio.wait(running)
        output.put_nowait(None)

    async def _run(self, part: Part) -> Part:
        call = part.function_call
        assert call is not None
        assert call.name is not None
        function, args = self._functions[call.name], call.args or {}
        if inspect.iscoroutinefunction(function):
            value = await function(**args)
        else:
            value = await asyncio.to_thread(function, **args)
        return content_api.ProcessorPart.from_function_response(
            name=call.name, response=value, function_call_id=call.id, role="user"
        )


def make(functions: Functions) -> Floor:
    """The floor over these functions."""
    return Floor(functions)
