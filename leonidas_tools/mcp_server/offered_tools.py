"""The tools that an MCP client sees."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mcp_types import Tool, ToolAnnotations

from leonidas_tools.redaction import without_presets
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.runtime.declared import ChangeSubscription
from leonidas_tools.settings.effective import effect_of
from leonidas_tools.tools import exports
from leonidas_tools.tools.tool import ToolCategory, ToolEffect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from leonidas_tools.calls.call import ToolSession
    from leonidas_tools.runtime.runtime import ToolRuntime
    from leonidas_tools.tools.registry import AnyTool

logger = visible_logger(__name__)

_OF_THE_AGENT = frozenset({ToolCategory.ACTION, ToolCategory.SPEECH})


class OfferedTools:
    """The tools that an MCP client may see and call.

    Built-in tools that act on the voice agent itself (`think`, `set_speech_rate`) are offered only
    if a pattern matches. The tool for voice confirmation is never offered: there is no speech here.

    `patterns` are names, or patterns such as `get_*`; all tools by default.
    """

    def __init__(self, tools: ToolRuntime, patterns: Sequence[str] = ()) -> None:
        self._tools = tools
        self._patterns = tuple(patterns)

    def listed(self, session: ToolSession | None = None) -> list[Tool]:
        """Return the tools that can be called now, as MCP tools."""
        return [self._listed(tool) for tool in self._tools.offered(session) if self._fits(tool)]

    def find(self, name: str) -> AnyTool | None:
        """Return the offered tool with this name, even while it cannot be called."""
        tool = exports.find(self._tools.registry, name)
        return None if tool is None or not self._fits(tool) else tool

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of the tool with this name."""
        tool = self.find(name)
        return None if tool is None else without_presets(tool.metadata.parameters)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` once for all changes in one iteration of the running event loop.

        Return a function that ends the subscription.
        """
        sources = (self._tools.registry.on_change, self._tools.settings.on_change)
        return ChangeSubscription(self.listed, listener, sources).end

    def _fits(self, tool: AnyTool) -> bool:
        if tool.metadata.answers_questions:
            return False
        if not self._patterns:
            is_builtin = self._tools.registry.is_builtin(tool.name)
            return not (is_builtin and tool.metadata.category in _OF_THE_AGENT)
        names = (tool.name, self._tools.registry.declared_name(tool.name))
        return any(fnmatchcase(name, pattern) for pattern in self._patterns for name in names)

    def _listed(self, tool: AnyTool) -> Tool:
        configured = self._tools.executor.settings.for_tool(tool.name, tool.origin)
        own = tool.metadata
        return Tool(
            name=self._tools.registry.declared_name(own.name),
            title=own.name.replace("_", " ").replace("-", " ").strip().capitalize() or None,
            description=configured.description or own.description,
            input_schema=dict(without_presets(own.parameters)),
            annotations=_annotations(effect_of(tool, configured)),
        )


def _annotations(effect: ToolEffect) -> ToolAnnotations:
    if effect is ToolEffect.READ:
        return ToolAnnotations(read_only_hint=True)
    return ToolAnnotations(read_only_hint=False, idempotent_hint=effect is ToolEffect.IDEMPOTENT)
