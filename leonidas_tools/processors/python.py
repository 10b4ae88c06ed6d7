"""The category `python`."""

from __future__ import annotations

from typing import ClassVar

from leonidas_tools.processors.category import CategoryProcessor
from leonidas_tools.tools.tool import ToolCategory


class PythonFunctionProcessor(CategoryProcessor):
    """Runs Python functions: async, sync (in threads; CPU-bound ones in processes), generators.

    Args:
        tools: Functions and tools it brings.

    Example:
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> PythonFunctionProcessor([add]).tools
        [<Tool 'add'>]
    """

    category: ClassVar[ToolCategory] = ToolCategory.PYTHON
