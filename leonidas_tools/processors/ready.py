"""Tools that are there only while something needs them, and which are shown of very many."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from leonidas_tools.overrides import either, refused
from leonidas_tools.policies.result_budget import READ_RESULT
from leonidas_tools.tool import Overflow
from leonidas_tools.toolboxes.results import read_result
from leonidas_tools.toolboxes.tool_search import ToolSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leonidas_tools.registry import AnyTool, ToolRegistry
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.watch import WatchedSettings


class ReadyTools:
    """Keeps `read_result` while some tool spills its results, and `find_tools` while not all show.

    Args:
        registry: Where tools are registered.
        settings: What holds for them.
        others: Puts other such tools in order.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        settings: WatchedSettings,
        others: Callable[[], None] | None = None,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._others = others
        self._find_tools = ToolSearch(registry, self._can_be_called).find_tools
        self._looked_at: tuple[int, Settings] | None = None

    def __call__(self) -> None:
        """Puts the registry in order; costs nothing where nothing has changed."""
        if self._others is not None:
            self._others()
        settings = self._settings.current
        if self._looked_at == (self._registry.generation, settings):
            return
        show = settings.policies.show
        self._keep(read_result, READ_RESULT, needed=any(map(self._spills, self._registry)))
        many = show is not None and len(self._registry) > show.most
        self._keep(self._find_tools, "find_tools", needed=many)
        self._looked_at = (self._registry.generation, settings)

    def choose(self, tools: Sequence[AnyTool]) -> list[AnyTool]:
        """Which of the tools are shown to a model: all, unless the settings say how many.

        Those that are always shown come besides; the others go by how lately they were preferred,
        and then by their order.
        """
        show = self._settings.current.policies.show
        if show is None:
            return list(tools)
        always = {tool.name for tool in tools if self._is_always_shown(tool, show.always)}
        others = [tool.name for tool in tools if tool.name not in always]
        known = set(others)
        preferred = [name for name in self._registry.preferred if name in known]
        shown = {*always, *list(dict.fromkeys([*preferred, *others]))[: show.most]}
        return [tool for tool in tools if tool.name in shown]

    def _is_always_shown(self, tool: AnyTool, patterns: Sequence[str]) -> bool:
        if self._registry.is_builtin(tool.name):
            return True
        return any(fnmatchcase(tool.name, pattern) for pattern in patterns)

    def _keep(self, tool: AnyTool, name: str, *, needed: bool) -> None:
        if needed and name not in self._registry:
            self._registry.register(tool, builtin=True)
        elif not needed and self._registry.get(name) is tool:
            self._registry.unregister(name)

    def _spills(self, tool: AnyTool) -> bool:
        said = self._settings.current.for_tool(tool.name, tool.origin).overflow
        return either(said, tool.metadata.overflow) is Overflow.SPILL

    def _can_be_called(self, tool: AnyTool) -> bool:
        return refused(tool, self._settings.current.for_tool(tool.name, tool.origin)) is None
