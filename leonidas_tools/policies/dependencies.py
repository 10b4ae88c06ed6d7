"""Refuse calls of a tool while a dependency is missing, and name it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from leonidas_tools.calls.call import Run, ToolCall, ToolResult
from leonidas_tools.errors import DependencyError
from leonidas_tools.policies.base import answered
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from leonidas_tools.policies.shared import Shared
    from leonidas_tools.settings.effective import EffectiveOptions


class Dependencies:
    """Refuses a call while a dependency is missing.

    Args:
        names: Names of tools, `module:NAME` or `command:NAME`.
        has_tool: Returns whether a tool can be called now.
    """

    __slots__ = ("_needs",)

    def __init__(self, *, names: Sequence[str], has_tool: Callable[[str], bool]) -> None:
        self._needs = tuple((name, *_check(name, has_tool)) for name in names)

    def __call__(self, call: ToolCall, run: Run) -> Awaitable[ToolResult]:
        """Run the call, unless a dependency is missing."""
        missing = [name for name, is_there, what in self._needs if not is_there(what)]
        if missing:
            needs = ", ".join(map(repr, missing))
            message = say("missing_dependency", needs=needs, tool=call.name)
            result = ToolResult.from_error(DependencyError(missing))
            return answered(replace(result, message=message))
        return run(call)


def _check(name: str, has_tool: Callable[[str], bool]) -> tuple[Callable[[str], bool], str]:
    """Return the check of a dependency, and the name to check."""
    kind, _, what = name.partition(":")
    if kind == "module" and what:
        return _has_module, what
    if kind == "command" and what:
        return _has_command, what
    return has_tool, name


def _has_command(name: str) -> bool:
    return shutil.which(name) is not None


def _has_module(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:  # noqa: BLE001 - the packages it is in are imported, and may raise anything
        return False


def for_tool(options: EffectiveOptions, shared: Shared) -> Iterator[Dependencies]:
    """Yield the check of a tool's dependencies."""
    names = options.tool.metadata.dependencies
    if names:
        yield Dependencies(names=names, has_tool=shared.has_tool)
