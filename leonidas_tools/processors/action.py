"""The category `action`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from leonidas_tools.processors.category import CategoryProcessor
from leonidas_tools.toolboxes.action import TOOLS
from leonidas_tools.tools.tool import ToolCategory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leonidas_tools.tools.registry import AnyTool


class ActionToolProcessor(CategoryProcessor):
    """Runs action tools; by default the built-in ones, which act on the session's state.

    Args:
        tools: Tools to run instead of the built-in ones.

    Example:
        >>> sorted(tool.name for tool in ActionToolProcessor().tools)[0]
        'change_state'
    """

    category: ClassVar[ToolCategory] = ToolCategory.ACTION

    def __init__(self, tools: Iterable[AnyTool | Callable[..., Any]] = TOOLS) -> None:
        super().__init__(tools)
