"""Ours without a stream: `AdvancedToolProcessor.execute`."""

import asyncio
from collections.abc import Sequence
from typing import Any

from leonidas_tools import ToolResult
from tests.benchmarks.adapter import Functions, Part
from tests.benchmarks.adapters.ours_stream import OursStream


class OursExecute(OursStream):
    """One call through `execute` is awaited as it is; several get a task each."""

    async def answer(self, calls: Sequence[Part]) -> Sequence[Any]:
        """Runs the calls at once and returns when all are answered."""
        if len(calls) == 1:
            return [await self._execute(calls[0])]
        tasks = [asyncio.create_task(self._execute(call)) for call in calls]
        return [await task for task in tasks]

    def value(self, answer: Any) -> Any:
        """What the tool returned."""
        return answer.result

    async def _execute(self, part: Part) -> ToolResult:
        call = part.function_call
        assert call is not None
        assert call.name is not None
        return await self._tools.execute(call.name, call.args or {})


def make(functions: Functions) -> OursExecute:
    """Our `execute` over these functions."""
    return OursExecute(functions)
