"""The categories that need no stage of their own: `system`, `data`, `integration`."""

from __future__ import annotations

from typing import ClassVar

from leonidas_tools.processors.category import CategoryProcessor
from leonidas_tools.tool import ToolCategory


class GenericToolProcessor(CategoryProcessor):
    """Runs the tools of the categories system, data and integration.

    Args:
        tools: Tools it brings.
    """

    categories: ClassVar[frozenset[ToolCategory]] = frozenset(
        {ToolCategory.SYSTEM, ToolCategory.DATA, ToolCategory.INTEGRATION}
    )
