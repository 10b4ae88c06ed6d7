"""Import single modules of a folder that is not on `sys.path`.

A model may be able to write next to a toolbox: only the modules that the settings name are found
there, and no import of anything else ever looks there.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


@dataclass(frozen=True, slots=True)
class ModuleInFolder:
    """A finder of one top-level module or package, for `sys.meta_path`."""

    name: str
    folder: str

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - as importlib calls it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the spec of the module; `None` for any other."""
        return PathFinder.find_spec(name, [self.folder]) if name == self.name else None


def modules_in_folders() -> tuple[tuple[str, str], ...]:
    """Return the names and the folders of the modules that are found by their folder."""
    finders = [each for each in sys.meta_path if isinstance(each, ModuleInFolder)]
    return tuple((each.name, each.folder) for each in finders)


def find_in_folders(modules: Iterable[tuple[str, str]]) -> None:
    """Let these modules be imported by their names, each from its folder."""
    known = modules_in_folders()
    sys.meta_path[:0] = [ModuleInFolder(*each) for each in modules if each not in known]
    importlib.invalidate_caches()


def forget_in_folder(name: str, folder: str) -> None:
    """Undo `find_in_folders` for a module that could not be imported."""
    sys.meta_path.remove(ModuleInFolder(name, folder))
