"""The category `speech`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from leonidas_tools.processors.category import CategoryProcessor
from leonidas_tools.toolboxes.speech import TOOLS
from leonidas_tools.tools.tool import ToolCategory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leonidas_tools.tools.registry import AnyTool


class SpeechControlProcessor(CategoryProcessor):
    """Runs speech tools; by default the built-in ones, which act on the session's speech.

    Args:
        tools: Tools to run instead of the built-in ones.

    Example:
        >>> sorted(tool.name for tool in SpeechControlProcessor().tools)[0]
        'change_voice'
    """

    category: ClassVar[ToolCategory] = ToolCategory.SPEECH

    def __init__(self, tools: Iterable[AnyTool | Callable[..., Any]] = TOOLS) -> None:
        super().__init__(tools)
