"""Finds the tools in modules, packages and entry points."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from importlib.metadata import entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any

from leonidas_tools.errors import RegistryError
from leonidas_tools.tool import Tool, as_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leonidas_tools.registry import AnyTool

ENTRY_POINT_GROUP = "leonidas_tools.toolboxes"


def discover(module: str | ModuleType) -> list[AnyTool]:
    """The tools of a module, or of a package and all its modules.

    A module that has `TOOLS` means those; of any other, every `Tool` at its top level that was
    made there counts.

    Args:
        module: The module or its name.

    Raises:
        RegistryError: It cannot be imported.

    Example:
        >>> [tool.name for tool in discover("leonidas_tools.toolboxes.demo")]
        ['get_weather', 'roll_dice', 'search_flights', 'offer_coin', 'read_log', 'send_money']
    """
    root = _import(module) if isinstance(module, str) else module
    found: dict[int, AnyTool] = {}
    for one in _modules(root):
        for tool in _tools_of(one):
            found.setdefault(id(tool), tool)
    return list(found.values())


def discover_entry_points(group: str = ENTRY_POINT_GROUP) -> list[AnyTool]:
    """The tools that installed packages offer by entry points.

    An entry point names a module or package, a tool, a function, or a sequence of those.

    Args:
        group: The entry points' group.

    Raises:
        RegistryError: One cannot be loaded.
    """
    return [tool for point in entry_points(group=group) for tool in _loaded(point)]


def _loaded(point: Any) -> list[AnyTool]:
    try:
        thing = point.load()
    except Exception as error:  # a module runs when it is imported, and may raise anything
        why = _reason(error)
        raise RegistryError(f"The entry point {point.name!r} cannot be loaded: {why}") from error
    if isinstance(thing, ModuleType):
        return discover(thing)
    things = thing if isinstance(thing, (list, tuple)) else [thing]
    return [as_tool(one) for one in things]


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a module runs when it is imported, and may raise anything
        raise RegistryError(f"The toolbox {name!r} cannot be imported: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What Python itself has to say; a module's own words may hold a secret."""
    if isinstance(error, (ImportError, SyntaxError, AttributeError)):
        return str(error)
    return f"it raised {type(error).__name__}"


def _modules(root: ModuleType) -> Iterator[ModuleType]:
    yield root
    for info in pkgutil.walk_packages(getattr(root, "__path__", []), f"{root.__name__}."):
        if not info.name.endswith("__main__"):
            yield _import(info.name)


def _tools_of(module: ModuleType) -> list[AnyTool]:
    listed = getattr(module, "TOOLS", None)
    if listed is not None:
        return [as_tool(thing) for thing in listed]
    own = (thing for _, thing in inspect.getmembers(module, lambda x: isinstance(x, Tool)))
    return [tool for tool in own if tool.function.__module__ == module.__name__]
