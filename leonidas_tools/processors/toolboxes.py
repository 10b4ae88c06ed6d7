"""The toolboxes that the settings name: which are loaded, and what each has brought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leonidas_tools.errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.registry import ToolRegistry


class Toolboxes:
    """Keeps the tools of some modules in a registry.

    Args:
        registry: Where the tools go.

    Example:
        >>> from leonidas_tools.registry import ToolRegistry
        >>> registry = ToolRegistry()
        >>> toolboxes = Toolboxes(registry)
        >>> toolboxes.load(["leonidas_tools.toolboxes.demo"])
        []
        >>> "roll_dice" in registry, toolboxes.load([]), "roll_dice" in registry
        (True, [], False)
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._loaded: dict[str, list[str]] = {}

    def load(self, wanted: Sequence[str]) -> list[RegistryError]:
        """Loads these modules and drops all others; returns what went wrong.

        A module that cannot be loaded brings nothing, and keeps no other from being loaded.

        Args:
            wanted: The modules.
        """
        for module in self._loaded.keys() - set(wanted):
            self._drop(self._loaded.pop(module))
        problems: list[RegistryError] = []
        for module in wanted:
            if module not in self._loaded:
                try:
                    self._loaded[module] = self._load(module)
                except RegistryError as error:
                    problems.append(error)
        return problems

    def _load(self, module: str) -> list[str]:
        from leonidas_tools.discovery import discover

        names: list[str] = []
        try:
            for tool in discover(module):
                names.append(self._registry.register(tool).name)  # noqa: PERF401 - kept if it fails
        except RegistryError:
            self._drop(names)
            raise
        return names

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._registry:  # a request may have taken it out
                self._registry.unregister(name)
