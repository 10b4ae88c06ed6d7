"""First stage: find the tool of each call, and answer calls of unknown tools."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from leonidas_tools.errors import RegistryError
from leonidas_tools.processors import stream
from leonidas_tools.processors.answers import settled_parts
from leonidas_tools.processors.intake import Intake
from leonidas_tools.processors.parts import CallPart, attached, cancelled_id
from leonidas_tools.processors.requests import Answer, build_answer, from_json, is_request
from leonidas_tools.processors.stage import Stage
from leonidas_tools.runtime.executor import Executor
from leonidas_tools.settings.effective import refusal_of
from leonidas_tools.tools.exports import describe
from leonidas_tools.tools.registry import AnyTool, ToolRegistry

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable

    from genai_processors import processor
    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls.events import Sink


class ToolRegistryProcessor(Stage):
    """Restores each call's id, drops repeated calls, and attaches the `ToolCall` to the part.

    A call of an unknown tool is answered at once, with the closest names. All other parts pass.

    Args:
        registry: The registered tools.
        executor: The executor for later stages; by default one of its own with default settings.
        json_requests: Whether parts in JSON may make read-only requests, here and in later stages.

    Example:
        >>> stage = ToolRegistryProcessor(ToolRegistry())
    """

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        executor: Executor | None = None,
        json_requests: bool = False,
    ) -> None:
        self.json_requests = json_requests
        self.registry = executor.registry if executor else registry or ToolRegistry()
        self.executor = executor or Executor(self.registry)
        self.answers: dict[str, Answer] = {
            "list_tools": self._list_tools,
            "get_tool": self._get_tool,
            "register_tool": self._register_tool,
            "unregister_tool": self._unregister_tool,
            "invalidate_cache": self._invalidate_cache,
        }

    async def call(self, content: processor.ProcessorStream) -> AsyncIterable[ProcessorPart]:
        """Yield the parts, with each call's tool attached."""
        intake = Intake(self.registry, stream.session(), executor=self.executor)
        sinks = stream.sinks()
        async for part in content:
            if attached(part) is not None:
                yield part
            elif part.function_call is None:
                if (cancelled := cancelled_id(part)) is not None:
                    intake.cancel(cancelled)
                asked = from_json(part) if self.json_requests else part
                yield await build_answer(asked, self.answers) if is_request(asked) else part
            else:
                for output in self._take(part, intake, sinks):
                    yield output

    def _take(
        self, part: ProcessorPart, intake: Intake, sinks: tuple[Sink, ...]
    ) -> tuple[ProcessorPart, ...]:
        taken = intake.take(part)
        if taken is None:
            return ()
        call, result = taken
        if result is None:
            return (CallPart(part, call, self.executor),)
        return settled_parts(self.executor, call, result, sinks)

    def _list_tools(self, category: str | None = None, query: str | None = None) -> dict[str, Any]:
        tools = self.registry.search(query, limit=len(self.registry)) if query else self.registry
        chosen = [tool for tool in tools if category in (None, str(tool.metadata.category))]
        by_category: dict[str, int] = {}
        for tool in self.registry:
            name = str(tool.metadata.category)
            by_category[name] = by_category.get(name, 0) + 1
        return {
            "total": len(self.registry),
            "by_category": by_category,
            "available": [tool.name for tool in chosen if self._is_available(tool)],
            "tools": [self._describe(tool) for tool in chosen],
        }

    def _get_tool(self, name: str) -> dict[str, Any]:
        return self._describe(self.registry[name])

    def _register_tool(
        self, tool: AnyTool | Callable[..., Any] | None = None, target: str | None = None
    ) -> dict[str, Any]:
        return self._describe(self.registry.register(tool or _load(target or "")))

    def _unregister_tool(self, name: str) -> dict[str, Any]:
        return {"name": self.registry.unregister(name).name}

    def _invalidate_cache(
        self, tool: str | None = None, arguments: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        return {"invalidated": self.executor.cache.invalidate(tool, arguments)}

    def _describe(self, tool: AnyTool) -> dict[str, Any]:
        return {**describe(self.registry, tool), "available": self._is_available(tool)}

    def _is_available(self, tool: AnyTool) -> bool:
        return refusal_of(tool, self.executor.settings.for_tool(tool.name, tool.origin)) is None


def _load(target: str) -> Callable[..., Any]:
    """Import and return the function that `package.module:name` names."""
    try:
        module, _, name = target.partition(":")
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]  # the caller checks
    except Exception as error:  # a module runs when it is imported, and may raise anything
        raise RegistryError(f"{target!r} is not a function: give 'package.module:name'") from error
