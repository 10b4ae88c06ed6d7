"""The chain of tools as upstream's `PartProcessor`s would have it: find, run, count."""

import asyncio
import inspect
from collections.abc import AsyncIterable

from genai_processors import content_api, processor

from tests.benchmarks.adapter import Functions, Part
from tests.benchmarks.streaming import StreamAdapter


class _Find(processor.PartProcessor):
    """Puts the function beside the call."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def match(self, part: Part) -> bool:
        return part.function_call is not None

    async def call(self, part: Part) -> AsyncIterable[Part]:
        call = part.function_call
        assert call is not None
        assert call.name is not None
        part.metadata["function"] = self._functions[call.name]
        yield part


class _Run(processor.PartProcessor):
    """Runs it and answers; parts behind it wait, as the order of a `PartProcessor` demands."""

    def match(self, part: Part) -> bool:
        return part.function_call is not None

    async def call(self, part: Part) -> AsyncIterable[Part]:
        call, function = part.function_call, part.metadata["function"]
        assert call is not None
        if inspect.iscoroutinefunction(function):
            value = await function(**(call.args or {}))
        else:
            value = await asyncio.to_thread(function, **(call.args or {}))
        yield content_api.ProcessorPart.from_function_response(
            name=call.name, response=value, function_call_id=call.id, role="user"
        )


class _Count(processor.PartProcessor):
    """Counts the answers."""

    def __init__(self) -> None:
        self.answers = 0

    def match(self, part: Part) -> bool:
        return part.function_response is not None

    async def call(self, part: Part) -> AsyncIterable[Part]:
        self.answers += 1
        yield part


class PartProcessorAdapter(StreamAdapter):
    """Three `PartProcessor`s joined by `+`."""

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self._chain = (_Find(functions) + _Run() + _Count()).to_processor()

    def stream(self, parts: AsyncIterable[Part]) -> AsyncIterable[Part]:
        """A session of its own; the functions are shared."""
        return self._chain(parts)


def make(functions: Functions) -> PartProcessorAdapter:
    """The chain over these functions."""
    return PartProcessorAdapter(functions)
