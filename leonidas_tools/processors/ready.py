"""Tools that are there only while something needs them, and which are shown of very many."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from leonidas_tools.approvals.transcript import Transcript
from leonidas_tools.policies.result_budget import READ_RESULT
from leonidas_tools.settings.effective import either, refused
from leonidas_tools.toolboxes.results import read_result
from leonidas_tools.toolboxes.tool_search import ToolSearch
from leonidas_tools.tools.preferred import PreferredTools
from leonidas_tools.tools.relevance import Relevance
from leonidas_tools.tools.tool import Overflow

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.watch import WatchedSettings
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry

_MOST_CHARACTERS = 600
"""How much of what the user has said lately the choice of tools goes by."""


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
        self._relevance: tuple[tuple[int, Settings], Relevance] | None = None

    def __call__(self) -> None:
        """Puts the registry in order; costs nothing where nothing has changed."""
        if self._others is not None:
            self._others()
        settings = self._settings.current
        if self._looked_at == (self._registry.generation, settings):
            return
        most = self._most()
        self._keep(read_result, READ_RESULT, needed=any(map(self._spills, self._registry)))
        many = most is not None and len(self._registry) > most
        self._keep(self._find_tools, "find_tools", needed=many)
        self._looked_at = (self._registry.generation, settings)

    def reasons(self, session: ToolSession | None) -> Hashable:
        """What makes the choice for a session differ from that for any; `None` for nothing.

        Args:
            session: The conversation, where it is known.
        """
        most = self._most()
        if session is None or most is None or len(self._registry) <= most:
            return None
        preferred, transcript = session.find(PreferredTools), session.find(Transcript)
        found = () if preferred is None else preferred.names
        said = "" if transcript is None else transcript.said_lately(_MOST_CHARACTERS)
        return (found, said) if found or said else None

    def choose(self, tools: Sequence[AnyTool], session: ToolSession | None = None) -> list[AnyTool]:
        """Which of the tools are shown to a model: all, unless the settings say how many.

        Those that are always shown come besides. The others go by how lately they were found in the
        session, by what the application prefers, by how well they fit what the user has said
        lately, and then by their order.

        Args:
            tools: Those that can be called.
            session: The conversation, where it is known.
        """
        show, most = self._settings.current.policies.show, self._most()
        if show is None or most is None:
            return list(tools)
        always = {tool.name for tool in tools if self._is_always_shown(tool, show.always)}
        others = [tool.name for tool in tools if tool.name not in always]
        known = set(others)
        order = [*self._wanted(session), *self._registry.preferred, *self._fitting(session)]
        wanted = [name for name in order if name in known]
        shown = {*always, *list(dict.fromkeys([*wanted, *others]))[:most]}
        return [tool for tool in tools if tool.name in shown]

    def _wanted(self, session: ToolSession | None) -> tuple[str, ...]:
        """The tools that were found in a session."""
        preferred = None if session is None else session.find(PreferredTools)
        return () if preferred is None else preferred.names

    def _fitting(self, session: ToolSession | None) -> list[str]:
        """The tools that fit what was said in a session, the best first."""
        transcript = None if session is None else session.find(Transcript)
        said = "" if transcript is None else transcript.said_lately(_MOST_CHARACTERS)
        if not said:
            return []
        made_of = (self._registry.generation, self._settings.current)
        if self._relevance is None or self._relevance[0] != made_of:
            self._relevance = (made_of, Relevance({t.name: self._texts(t) for t in self._registry}))
        return self._relevance[1].best(said)

    def _texts(self, tool: AnyTool) -> tuple[str, str]:
        """The tags and the description that the settings leave a tool."""
        said, own = self._settings.current.for_tool(tool.name, tool.origin), tool.metadata
        tags = either(said.tags, own.tags)
        return " ".join(tags), either(said.description, own.description)

    def _most(self) -> int | None:
        """How many tools are shown; `None` for all."""
        show = self._settings.current.policies.show
        return None if show is None else show.most or None

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
