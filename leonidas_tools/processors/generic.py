"""The categories that need no stage of their own."""

from __future__ import annotations

from typing import ClassVar

from leonidas_tools.processors.category import CategoryProcessor
from leonidas_tools.tools.tool import ToolCategory


class GenericToolProcessor(CategoryProcessor):
    """Runs tools of the categories system, data, integration, query, storage, external and custom.

    It also runs the tools of every category of one's own that has no processor beside it.

    Args:
        tools: Tools it brings.
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
