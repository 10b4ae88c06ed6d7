"""The registry of tools."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.errors import DuplicateToolError, SchemaError, ToolError, ToolNotFoundError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.similar import closest
from leonidas_tools.tools.metadata import as_category, guess_category
from leonidas_tools.tools.names import legal_names
from leonidas_tools.tools.preferred import PreferredTools
from leonidas_tools.tools.tool import Tool, ToolCategory, ToolStatus, as_enum, as_tool, as_tools

logger = visible_logger(__name__)

_MAX_WORDS = 50
"""Most words of a query: each is searched for in every tool."""
_SEARCHED_CHARACTERS = 1000
"""Length of the part of a description that is searched."""

AnyTool: TypeAlias = Tool[..., Any]
Listener: TypeAlias = Callable[[], None]
Expectation: TypeAlias = Callable[[str], ToolError | None]


class ToolRegistry:
    """Keeps every tool by its own name, and by the name declared to the model.

    Gemini refuses some names; such a tool is declared under a legal name, which stays the same
    while the tool is registered.

    Args:
        tools: Tools and functions to begin with.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     "Adds two numbers."
        ...     return a + b
        >>> registry = ToolRegistry([add])
        >>> "add" in registry, [tool.name for tool in registry]
        (True, ['add'])
        >>> registry.suggestions("ad")
        ['add']
    """

    def __init__(self, tools: Iterable[AnyTool | Callable[..., Any]] = ()) -> None:
        self.generation = 0
        """Number that grows with every change, for caches of data derived from the registry."""
        self._tools: dict[str, AnyTool] = {}
        self._builtin: set[str] = set()
        self._declared: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._preferred = PreferredTools()
        self._preferred.on_change(self._notify_changed)
        self._listeners = Listeners[[]]("changed tools")
        self._expected: list[Expectation] = []
        for tool in as_tools(tools):
            self.register(tool)

    def register(
        self, thing: AnyTool | Callable[..., Any], *, builtin: bool = False, **options: Any
    ) -> AnyTool:
        """Add a tool; also usable as a decorator.

        A user's tool replaces a built-in of the same name, and a built-in never replaces a
        user's. Any other second registration of a name is refused.

        Args:
            thing: A tool, or a function to create one from.
            builtin: Whether it comes with the library.
            options: Fields of `ToolMetadata` to set or change.

        Raises:
            DuplicateToolError: The name is taken.
            SchemaError: The function cannot become a tool.
        """
        tool = as_tool(thing, **options)
        name = tool.metadata.name
        if (near := guess_category(tool.metadata.category)) is not None:
            logger.warning(
                "The category %r of the tool %r is not a known one: did you mean %r?",
                tool.metadata.category,
                name,
                near.value,
            )
        if name in self._tools:
            if builtin and name not in self._builtin:
                logger.info("The tool %r of the user replaces the built-in one", name)
                return self._tools[name]
            if builtin or name not in self._builtin:
                raise DuplicateToolError(
                    f"There is a tool {name!r} already: unregister it first, or give this one "
                    f"another name"
                )
            logger.info("The tool %r replaces the built-in one", name)
            self._builtin.discard(name)
        elif builtin:
            self._builtin.add(name)
        self._put(tool)
        return tool

    def replace(self, tool: AnyTool) -> AnyTool:
        """Replace the tool of the same name; keep its declared name."""
        self._put(tool)
        return tool

    def unregister(self, name: str) -> AnyTool:
        """Remove a tool and return it.

        Raises:
            ToolNotFoundError: There is no tool of that name.
        """
        tool = self[name]
        del self._tools[name]
        del self._own[self._declared.pop(name)]
        self._builtin.discard(name)
        self._notify_changed()
        return tool

    @property
    def by_name(self) -> Mapping[str, AnyTool]:
        """Return a live view of the tools by their own names."""
        return MappingProxyType(self._tools)

    def get(self, name: str) -> AnyTool | None:
        """Return the tool with this own name, or `None`."""
        return self._tools.get(name)

    def find(self, called_as: str) -> AnyTool | None:
        """Return the tool that a model calls: by its declared name, else by its own."""
        return self._tools.get(self._own.get(called_as, called_as))

    def __getitem__(self, name: str) -> AnyTool:
        try:
            return self._tools[name]
        except KeyError:
            raise ToolNotFoundError(name, self.suggestions(name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(list(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)

    def declared_name(self, name: str) -> str:
        """Return the declared name of a tool; without such a tool, its name in legal form."""
        return self._declared.get(name) or legal_names([name])[name]

    def by_category(self, category: ToolCategory | str) -> list[AnyTool]:
        """Return the tools of one category."""
        wanted = as_category(category)
        found = [tool for tool in self if tool.metadata.category == wanted]
        if not found and not isinstance(wanted, ToolCategory):
            near = guess_category(wanted)
            known = ", ".join(sorted({str(tool.metadata.category) for tool in self}))
            hint = f"did you mean {near.value!r}?" if near else f"choose one of {known}"
            raise SchemaError(f"There is no category {category!r}: {hint}")
        return found

    def by_status(self, status: ToolStatus | str) -> list[AnyTool]:
        """Return the tools with one status in their metadata; the settings may override it."""
        wanted = as_enum(ToolStatus, status)
        return [tool for tool in self if tool.metadata.status is wanted]

    def set_status(self, name: str, status: ToolStatus | str) -> AnyTool:
        """Change whether a tool can be called.

        Raises:
            ToolNotFoundError: There is no tool of that name.
        """
        return self.replace(self[name].with_options(status=as_enum(ToolStatus, status)))

    def search(self, query: str, *, limit: int = 10) -> list[AnyTool]:
        """Return the tools that best match some words, by name, tags and description.

        Args:
            query: Words, of which the first 50 different ones count.
            limit: The maximum number of tools.
        """
        found = re.findall(r"\w+", query.lower())
        words = list(itertools.islice(dict.fromkeys(found), _MAX_WORDS))
        scored = [(score, tool) for tool in self if (score := _relevance(tool, words)) > 0]
        scored.sort(key=lambda pair: (-pair[0], pair[1].name))
        return [tool for _, tool in scored[:limit]]

    def prefer(self, names: Iterable[str]) -> None:
        """Record which tools are useful now, if not all are declared to the model.

        Args:
            names: Their own names, the most useful first; earlier preferences come after them.
        """
        self._preferred.prefer(names)

    @property
    def preferred(self) -> list[str]:
        """Return the names of the preferred tools, the most useful first."""
        return list(self._preferred.names)

    def is_builtin(self, name: str) -> bool:
        """Return whether a tool comes with the library."""
        return name in self._builtin

    def suggestions(self, name: str, *, limit: int = 3) -> list[str]:
        """Return the declared names closest to a misspelt one, best first."""
        return closest(name, self._own, limit=limit)

    def expect(self, source: Expectation) -> None:
        """Add a source of tools that may not be registered yet.

        Args:
            source: Returns, for a name, why its tool is not registered yet; `None` if it has none.
        """
        self._expected.append(source)

    def not_yet(self, name: str) -> ToolError | None:
        """Return why a tool is not registered yet; `None` if no source has the tool."""
        found = (why for source in self._expected if (why := source(name)) is not None)
        return next(found, None)

    def on_change(self, listener: Listener) -> Listener:
        """Call `listener` after every change; return a function that unsubscribes.

        Args:
            listener: Called in the thread that makes the change. Its exceptions are logged.
        """
        return self._listeners.subscribe(listener)

    def _put(self, tool: AnyTool) -> None:
        name = tool.metadata.name
        if name not in self._declared:
            declared = legal_names([name])[name]
            if declared in self._own:
                declared = legal_names([name], self._declared)[name]
            self._declared[name] = declared
            self._own[declared] = name
        self._tools[name] = tool  # last: another thread may look for the declared name at once
        self._notify_changed()

    def _notify_changed(self) -> None:
        self.generation += 1
        self._listeners.notify()

    def _repr_html_(self) -> str:
        from leonidas_tools.results.html import html_table  # only notebooks show it

        return html_table([tool.shown() for tool in self])

    def __repr__(self) -> str:
        return f"<ToolRegistry of {len(self)} tools>"


def _relevance(tool: AnyTool, words: list[str]) -> float:
    """Return how well a tool matches some words; 0 for no match."""
    metadata = tool.metadata
    name, tags = metadata.name.lower(), " ".join(metadata.tags).lower()
    description = metadata.description[:_SEARCHED_CHARACTERS].lower()
    return sum(
        3.0 * (word in name) + 2.0 * (word in tags) + 1.0 * (word in description) for word in words
    )
