"""Third stage: runs the calls of some categories, each as a task beside the stream.

genai-processors runs a chain of `PartProcessor`s in input order, so that a slow tool would hold
back the audio behind it (`genai_processors/map_processor.py`). A category is a `PartProcessor`,
easy to use alone and with `//`; made a `Processor`, which `+` does, it becomes a `CallStream`,
where nothing waits for a tool.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Self

from genai_processors import processor

from leonidas_tools.executor import Executor
from leonidas_tools.processors import stream
from leonidas_tools.processors.call_stream import CallStream
from leonidas_tools.processors.intake import Intake
from leonidas_tools.processors.parts import TOOL_EXECUTOR, attached, response_part
from leonidas_tools.registry import AnyTool, ToolRegistry
from leonidas_tools.tool import ToolCategory, as_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Sequence

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.calls import ToolCall

_PASSTHROUGHS = (processor.PASSTHROUGH_FALLBACK, processor.PASSTHROUGH_ALWAYS)


class CategoryProcessor(processor.PartProcessor):
    """Runs the calls of its categories; a new category is a subclass that names its own.

    Behind a registry stage it runs the calls that stage has recognised. With tools of its own it
    also works alone, with default settings.

    Args:
        tools: Tools and functions it brings.
    """

    categories: ClassVar[frozenset[ToolCategory]] = frozenset()

    def __init__(self, tools: Iterable[AnyTool | Callable[..., Any]] = ()) -> None:
        self.registry = ToolRegistry(self._own(thing) for thing in tools)

    @functools.cached_property
    def executor(self) -> Executor:
        """Runs its own tools, where no registry stage has recognised the call."""
        return Executor(self.registry)

    @property
    def tools(self) -> list[AnyTool]:
        """The tools it brings, ready to register."""
        return list(self.registry)

    def claims(self, tool: AnyTool) -> bool:
        """Whether the calls of a tool are for this category."""
        return tool.metadata.category in self.categories

    def match(self, part: ProcessorPart) -> bool:
        """Whether the part is a call for this category; never raises."""
        call = attached(part)
        if call is not None:
            return call.tool is not None and self.claims(call.tool)
        function_call = part.part.function_call
        return function_call is not None and self._knows(function_call.name)

    def recognise(self, part: ProcessorPart, intake: Intake) -> tuple[ToolCall, Executor] | None:
        """The call of a part that matches and what runs it; `None` for a repeated one."""
        call = attached(part)
        if call is not None:
            return call, part.metadata[TOOL_EXECUTOR]
        intake.registry = self.registry
        call = intake.take(part)
        return None if call is None else (call, self.executor)

    async def __aenter__(self) -> Self:
        """Holds what the category needs while a stream runs; nothing, unless a subclass says so."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Lets it go."""

    async def call(self, part: ProcessorPart) -> AsyncIterable[ProcessorPart]:
        """Runs one call and yields its answer."""
        recognised = self.recognise(part, Intake(self.registry, stream.session()))
        if recognised is not None:
            call, executor = recognised
            async with executor:
                yield response_part(call, await executor.run(call))

    def to_processor(self) -> processor.Processor:
        """This category as a stage of a stream."""
        return CallStream([self])

    def __add__(self, other: Any) -> Any:
        return self.to_processor() + other

    def __floordiv__(self, other: Any) -> Any:
        return _beside([self], other) or super().__floordiv__(other)

    def _knows(self, name: str | None) -> bool:
        return name is not None and self.registry.find(name) is not None

    def _own(self, thing: AnyTool | Callable[..., Any]) -> AnyTool:
        tool = as_tool(thing)
        if tool.metadata.category in self.categories or not self.categories:
            return tool
        return tool.with_options(category=min(self.categories))


class CategoryGroup(processor.PartProcessor):
    """Categories side by side: what `//` between them makes. Parts that none claims pass through.

    Args:
        categories: The categories, the first that matches a call runs it.
    """

    def __init__(self, categories: Sequence[CategoryProcessor]) -> None:
        self.categories = list(categories)

    def match(self, part: ProcessorPart) -> bool:
        """Whether the part is a call for one of the categories."""
        return any(category.match(part) for category in self.categories)

    async def call(self, part: ProcessorPart) -> AsyncIterable[ProcessorPart]:
        """Runs one call and yields its answer."""
        for category in self.categories:
            if category.match(part):
                async for output in category.call(part):
                    yield output
                return
        yield part

    def to_processor(self) -> processor.Processor:
        """The categories as one stage of a stream."""
        return CallStream(self.categories)

    def __add__(self, other: Any) -> Any:
        return self.to_processor() + other

    def __floordiv__(self, other: Any) -> Any:
        return _beside(self.categories, other) or super().__floordiv__(other)


def _beside(categories: Sequence[CategoryProcessor], other: Any) -> CategoryGroup | None:
    """A group of these and the other, where the other is of our kind or passes parts through."""
    if isinstance(other, CategoryGroup):
        return CategoryGroup([*categories, *other.categories])
    if isinstance(other, CategoryProcessor):
        return CategoryGroup([*categories, other])
    if any(other is passthrough for passthrough in _PASSTHROUGHS):
        return CategoryGroup(categories)
    return None
