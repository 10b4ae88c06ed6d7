"""Ours as a stream, with its defaults: validation, lanes, timeout, ledger and metrics on.

Only the number of calls at once is not limited, because some workloads make 1,000.
"""

from collections.abc import AsyncIterable, Mapping
from typing import Any, Self

from leonidas_tools import AdvancedToolProcessor, Tool
from tests.benchmarks.adapter import Functions, Part
from tests.benchmarks.streaming import StreamAdapter

_CONFIG = {"policies": {"calls": {"at_once": "off"}}}


class OursStream(StreamAdapter):
    """`AdvancedToolProcessor` as a stream of parts."""

    def __init__(self, functions: Functions, config: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        tools = [Tool(function, effect="read") for function in functions.values()]
        self._tools = AdvancedToolProcessor(tools=tools, config=config, builtin_tools=False)

    @classmethod
    def over(cls, tools: AdvancedToolProcessor) -> Self:
        """The stream of tools that are there already."""
        adapter = cls({})
        adapter._tools = tools
        return adapter

    async def __aenter__(self) -> Self:
        await self._tools.__aenter__()
        return await super().__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        await super().__aexit__(*exc)
        await self._tools.__aexit__(None, None, None)

    def stream(self, parts: AsyncIterable[Part]) -> AsyncIterable[Part]:
        """A session of its own; the tools are shared."""
        output: AsyncIterable[Part] = self._tools(parts)
        return output


def make(functions: Functions) -> OursStream:
    """Our stream over these functions."""
    return OursStream(functions, _CONFIG)
