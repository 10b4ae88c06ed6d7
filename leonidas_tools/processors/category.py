"""Third stage: run the calls of some categories, each as a task beside the stream.

genai-processors runs a chain of `PartProcessor`s in input order, so that a slow tool would delay
the audio behind it (`genai_processors/map_processor.py`). A category is a `PartProcessor`, which
also works alone and with `//`. `+` converts it to a `Processor`: a `CallStream`, in which no part
waits for a tool.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Self

from genai_processors import processor

from leonidas_tools.processors import stream
from leonidas_tools.processors.answers import response_part
from leonidas_tools.processors.call_stream import CallStream
from leonidas_tools.processors.intake import Intake, remember
from leonidas_tools.processors.parts import attached, cancelled_id, claim, executor_of
from leonidas_tools.runtime.executor import Executor
from leonidas_tools.settings.effective import category_of
from leonidas_tools.toolboxes import action, speech
from leonidas_tools.tools.registry import AnyTool, ToolRegistry
from leonidas_tools.tools.tool import ToolCategory, as_category, as_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Collection, Iterable, Sequence

    from genai_processors.content_api import ProcessorPart

    from leonidas_tools.processors.call_stream import Recognised
    from leonidas_tools.settings.models import ToolConfiguration

_PASSTHROUGHS = (processor.PASSTHROUGH_FALLBACK, processor.PASSTHROUGH_ALWAYS)


class _RunsCalls(processor._ParallelPartProcessor):  # noqa: SLF001 - `//` checks for this class
    """A part processor that runs calls, alone or in a group.

    Upstream's `//` passes every part to all processors that match it. So in `other // category` a
    call would bypass the category that runs it, and get two responses. It is refused: upstream
    reads `_processor_list` of a `_ParallelPartProcessor` on the right, which raises here.
    """

    @property
    def _processor_list(self) -> list[Any]:  # type: ignore[override]
        raise TypeError(
            f"A {type(self).__name__} on the right of `//` would also pass its calls to the "
            f"left operand: write the categories first, as in `category // other`"
        )

    @property
    def key_prefix(self) -> str:
        return type(self).__qualname__

    @property
    def trace_name(self) -> str:
        return type(self).__name__

    @property
    def is_excluded_from_trace(self) -> bool:
        return False

    def __add__(self, other: Any) -> Any:
        return self.to_processor() + other

    def __floordiv__(self, other: Any) -> Any:
        categories, others = _parts_of(self)
        more_categories, more_others = _parts_of(other)
        return CategoryGroup([*categories, *more_categories], [*others, *more_others])


class CategoryProcessor(_RunsCalls):
    """Runs the calls of its categories; subclass it for a new category.

    A subclass sets one `category`, or several `categories`: built-in ones or names of its own. It
    may open resources for its tools in `__aenter__`, and close them in `__aexit__`, per stream.

    After a registry stage, it runs the calls that the stage has recognised. With tools of its own
    it also works alone, with default settings.

    Args:
        tools: Tools and functions to run; a tool of another category is reassigned to this one.

    Example:
        >>> class BillingProcessor(CategoryProcessor):
        ...     category = "billing"
        >>> def invoice(customer: str) -> str:
        ...     return f"Invoice for {customer}"
        >>> BillingProcessor([invoice]).tools[0].metadata.category
        'billing'
    """

    category: ClassVar[ToolCategory | str | None] = None
    categories: ClassVar[Collection[ToolCategory | str]] = frozenset()
    serves_others: ClassVar[bool] = False
    """True if it also runs tools of user-defined categories that no other processor serves."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        said = vars(cls)
        if (category := said.get("category")) is not None:
            cls.categories = frozenset({as_category(category)})
        elif "categories" in said:
            named = cls.categories
            words = (named,) if isinstance(named, str) else named
            cls.categories = frozenset(map(as_category, words))

    def __init__(self, tools: Iterable[AnyTool | Callable[..., Any]] = ()) -> None:
        self.registry = ToolRegistry(self._own(tool) for tool in as_tools(tools))

    @functools.cached_property
    def executor(self) -> Executor:
        """Return the executor of its own tools, for calls that no registry stage has recognised."""
        return Executor(self.registry)

    @property
    def tools(self) -> list[AnyTool]:
        """Return its own tools, ready to register."""
        return list(self.registry)

    def claims(self, tool: AnyTool, settings: ToolConfiguration | None = None) -> bool:
        """Return whether the calls of a tool are for this category.

        Args:
            tool: The tool.
            settings: The settings of the tool, which may set another category.
        """
        return self._serves(category_of(tool, settings))

    def match(self, part: ProcessorPart) -> bool:
        """Return whether the part is a call for this category; never raises."""
        call = attached(part)
        if call is not None:
            return call.tool is not None and self.claims(call.tool, call.settings)
        function_call = part.part.function_call
        return function_call is not None and self._knows(function_call.name)

    def recognise(self, part: ProcessorPart, intake: Intake) -> Recognised | None:
        """Return the call of a matching part, its executor, and its result if it is known.

        Returns:
            `None` for a call that this stream has already taken, or that another stage has claimed.
        """
        call = attached(part)
        if call is not None:
            return (call, executor_of(part) or self.executor, None) if claim(part) else None
        intake.registry = self.registry
        taken = intake.take(part)
        return None if taken is None else (taken[0], self.executor, taken[1])

    async def __aenter__(self) -> Self:
        """Open the resources of the category while a stream runs; by default there are none."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the resources."""

    async def call(self, part: ProcessorPart) -> AsyncIterable[ProcessorPart]:
        """Run one call and yield its response."""
        recognised = self.recognise(part, Intake(self.registry, stream.session()))
        if recognised is not None:
            call, executor, result = recognised
            async with executor:
                sinks = executor.with_sinks(stream.sinks())
                result = result or await executor.run(call, sinks)
            remember(call, result)
            yield response_part(call, result)

    def to_processor(self) -> processor.Processor:
        """Return this category as a stage of a stream."""
        return CallStream([self])

    def _knows(self, name: str | None) -> bool:
        return name is not None and self.registry.find(name) is not None

    def _own(self, tool: AnyTool) -> AnyTool:
        if not self.categories or self._serves(tool.metadata.category):
            return tool
        return tool.with_options(category=min(self.categories))

    def _serves(self, category: ToolCategory | str) -> bool:
        own_word = self.serves_others and not isinstance(category, ToolCategory)
        return own_word or category in self.categories


class CategoryGroup(_RunsCalls):
    """Categories and other part processors in parallel, as created by `//`.

    A call goes only to the first category that claims it: another processor could pass it on, and a
    later stage would answer it again. Every other part goes to all other processors that match it,
    and passes unchanged if none does.
    """

    def __init__(
        self,
        categories: Sequence[CategoryProcessor],
        others: Sequence[processor.PartProcessor] = (),
    ) -> None:
        self.categories = sorted(categories, key=lambda category: category.serves_others)
        self.others = list(others)

    def match(self, part: ProcessorPart) -> bool:
        """Return whether the part is for one of the categories or of the other processors."""
        return self.category_of(part) is not None or self.is_for_others(part)

    async def call(self, part: ProcessorPart) -> AsyncIterable[ProcessorPart]:
        """Run one call and yield its response, or yield the output of the other processors."""
        category = self.category_of(part)
        if category is not None:
            async for output in category.call(part):
                yield output
        elif self.is_for_others(part):
            async for output in processor.parallel(self.others)(part):
                yield output
        else:
            yield part

    def to_processor(self) -> processor.Processor:
        """Return the group as one stage of a stream."""
        calls = CallStream(self.categories)
        return _Beside(self).to_processor() + calls if self.others else calls

    def category_of(self, part: ProcessorPart) -> CategoryProcessor | None:
        """Return the category that runs the call of a part, if there is one."""
        return next((category for category in self.categories if category.match(part)), None)

    def is_for_others(self, part: ProcessorPart) -> bool:
        """Return whether the part is no cancellation and another processor matches it."""
        return cancelled_id(part) is None and any(other.match(part) for other in self.others)


class _Beside(processor.PartProcessor):
    """The other processors of a group, which receive all parts but calls and cancellations."""

    def __init__(self, group: CategoryGroup) -> None:
        self._group = group

    def match(self, part: ProcessorPart) -> bool:
        return self._group.category_of(part) is None and self._group.is_for_others(part)

    def call(self, part: ProcessorPart) -> AsyncIterable[ProcessorPart]:
        return self._group.call(part)


def _parts_of(thing: Any) -> tuple[list[CategoryProcessor], list[processor.PartProcessor]]:
    """Return the categories and the other processors of one operand of `//`."""
    if isinstance(thing, CategoryProcessor):
        return [thing], []
    if isinstance(thing, CategoryGroup):
        return thing.categories, thing.others
    if isinstance(thing, processor._ParallelPartProcessor):  # noqa: SLF001 - what `//` has made
        members: list[Any] = thing._processor_list  # noqa: SLF001
        return [], [each for each in members if each not in _PASSTHROUGHS]
    if isinstance(thing, processor.PartProcessor):
        return [], [] if thing in _PASSTHROUGHS else [thing]
    raise TypeError(
        f"{thing!r} cannot be combined with a category by `//`, which takes a PartProcessor: "
        f"put it before or after the categories with `+`"
    )


class ActionToolProcessor(CategoryProcessor):
    """Runs action tools; by default the built-in ones, which act on the session's state.

    Args:
        tools: Tools to run instead of the built-in ones.

    Example:
        >>> sorted(tool.name for tool in ActionToolProcessor().tools)[0]
        'change_state'
    """

    category: ClassVar[ToolCategory] = ToolCategory.ACTION

    def __init__(self, tools: Iterable[AnyTool | Callable[..., Any]] = action.TOOLS) -> None:
        super().__init__(tools)


class SpeechControlProcessor(CategoryProcessor):
    """Runs speech tools; by default the built-in ones, which act on the session's speech.

    Args:
        tools: Tools to run instead of the built-in ones.

    Example:
        >>> sorted(tool.name for tool in SpeechControlProcessor().tools)[0]
        'change_voice'
    """

    category: ClassVar[ToolCategory] = ToolCategory.SPEECH

    def __init__(self, tools: Iterable[AnyTool | Callable[..., Any]] = speech.TOOLS) -> None:
        super().__init__(tools)


class PythonFunctionProcessor(CategoryProcessor):
    """Runs Python functions: async, sync (in threads; CPU-bound ones in processes), generators.

    Args:
        tools: Functions and tools of its own.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> PythonFunctionProcessor([add]).tools
        [<Tool 'add'>]
    """

    category: ClassVar[ToolCategory] = ToolCategory.PYTHON


class GenericToolProcessor(CategoryProcessor):
    """Runs tools of the categories system, data, integration, query, storage, external and custom.

    It also runs tools of user-defined categories that no other processor serves.

    Args:
        tools: Tools of its own.
    """

    categories: ClassVar[frozenset[ToolCategory]] = frozenset(
        {
            ToolCategory.SYSTEM,
            ToolCategory.DATA,
            ToolCategory.INTEGRATION,
            ToolCategory.QUERY,
            ToolCategory.STORAGE,
            ToolCategory.EXTERNAL,
            ToolCategory.CUSTOM,
        }
    )
    serves_others: ClassVar[bool] = True
