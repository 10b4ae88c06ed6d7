"""Load the toolboxes that the settings name, and unload those that they no longer name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leonidas_tools.errors import RegistryError, ToolboxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leonidas_tools.settings.watch import WatchedSettings
    from leonidas_tools.tools.registry import AnyTool, ToolRegistry


class Toolboxes:
    """Keep the tools of the named toolboxes in a registry.

    Args:
        registry: Where the tools go.
        settings: Where the toolboxes are named; a name is looked up beside their file first.

    Example:
        >>> from leonidas_tools.tools.registry import ToolRegistry
        >>> from leonidas_tools.settings.watch import WatchedSettings
        >>> registry = ToolRegistry()
        >>> toolboxes = Toolboxes(registry, WatchedSettings())
        >>> toolboxes.load(["demo"])
        []
        >>> "roll_dice" in registry, toolboxes.load([]), "roll_dice" in registry
        (True, [], False)
    """

    def __init__(self, registry: ToolRegistry, settings: WatchedSettings) -> None:
        self._registry = registry
        self._settings = settings
        self._loaded: dict[str, list[str]] = {}
        self._imported: dict[str, list[AnyTool]] = {}

    def load(self, wanted: Sequence[str]) -> list[ToolboxError]:
        """Load these toolboxes, unload all others, and return what went wrong.

        A toolbox that cannot be loaded brings no tools and keeps no other from being loaded.
        """
        for name in self._loaded.keys() - set(wanted):
            self._drop(self._loaded.pop(name))
        problems: list[ToolboxError] = []
        for index, name in enumerate(wanted):
            if name not in self._loaded:
                try:
                    self._loaded[name] = self._load(name)
                except RegistryError as error:
                    place = self._settings.locate(f"toolboxes.{index}")
                    problems.append(ToolboxError(name, str(error), place=place))
        self._imported.clear()
        return problems

    def tools_with(self, wanted: Sequence[str]) -> Mapping[str, AnyTool]:
        """Return the tools that there would be after `load`; nothing is registered yet.

        Raises:
            ToolboxError: One of the new toolboxes cannot be imported, or has a tool with the name
                of another.
        """
        tools = {tool.name: tool for tool in self._registry}
        for name in self._loaded.keys() - set(wanted):
            for gone in self._loaded[name]:
                tools.pop(gone, None)
        for name in wanted:
            if name in self._loaded:
                continue
            try:
                self._imported[name] = brought = self._import(name)
            except RegistryError as error:
                raise ToolboxError(name, str(error)) from error
            for tool in brought:
                if tool.name in tools and not self._registry.is_builtin(tool.name):
                    raise ToolboxError(name, f"There is a tool {tool.name!r} already: rename one")
                tools[tool.name] = tool
        return tools

    def _load(self, name: str) -> list[str]:
        names: list[str] = []
        try:
            for tool in self._imported.get(name) or self._import(name):
                names.append(self._registry.register(tool).name)  # noqa: PERF401 - kept if it fails
        except RegistryError:
            self._drop(names)
            raise
        return names

    def _import(self, name: str) -> list[AnyTool]:
        from leonidas_tools.tools.discovery import load_toolbox

        return load_toolbox(name, self._folders())

    def _folders(self) -> list[Path]:
        """Return the folder of the settings file and the working directory."""
        file = self._settings.path
        beside = [] if file is None else [file.resolve().parent]
        here = Path.cwd()
        return [*beside, *([] if here in beside else [here])]

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._registry:  # a request may have taken it out
                self._registry.unregister(name)
