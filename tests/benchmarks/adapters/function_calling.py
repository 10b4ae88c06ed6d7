"""Upstream's `FunctionCalling` around a bidirectional model that only repeats what it is sent."""

from collections.abc import AsyncIterable

from genai_processors import content_api, processor
from genai_processors.core import function_calling

from tests.benchmarks.adapter import Functions, Part
from tests.benchmarks.streaming import StreamAdapter


class _Echo(processor.Processor):
    """A model that asks for what comes in, and ends its turn at once.

    `FunctionCalling` holds results back for as long as the model has the turn.
    """

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[Part]:
        yield _turn_complete()
        async for part in content:
            if content_api.is_end_of_turn(part):
                yield _turn_complete()
            elif part.function_response is None:
                yield part


def _turn_complete() -> Part:
    return content_api.ProcessorPart("", role="model", metadata={"turn_complete": True})


class FunctionCallingAdapter(StreamAdapter):
    """`FunctionCalling(is_bidi_model=True)`."""

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self._chain = function_calling.FunctionCalling(
            _Echo(), is_bidi_model=True, fns=list(functions.values())
        )

    def stream(self, parts: AsyncIterable[Part]) -> AsyncIterable[Part]:
        """A session of its own; the functions are shared."""
        return self._chain(parts)


def make(functions: Functions) -> FunctionCallingAdapter:
    """`FunctionCalling` over these functions."""
    return FunctionCallingAdapter(functions)
