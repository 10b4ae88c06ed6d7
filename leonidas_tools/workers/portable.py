"""How one process describes a function, and how another process finds it."""

from __future__ import annotations

import ast
import functools
import importlib
import os
import pickle
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from leonidas_tools.errors import ToolError
from leonidas_tools.files.modules import find_in_folders, modules_in_folders
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Target(NamedTuple):
    """The way another process finds a function: a pickle, its name, or the name of its tool."""

    pickled: bytes | None
    module: str
    name: str
    is_tool: bool
    beside: tuple[tuple[str, str], ...]  # the toolboxes next to the settings, with their folders
    main: tuple[str, str, tuple[str, ...]] | None  # the main script, if the function needs it


def why_not_portable(function: Callable[..., Any]) -> str | None:
    """Return why another process cannot find a function, and the remedy; `None` if it may."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    name, module = named.__qualname__, getattr(named, "__module__", None)
    if "<lambda>" in name or "<locals>" in name:
        return say("not_portable_nested", name=name)
    return _main_problem() if module == "__main__" else None


def _main_problem() -> str | None:
    """Return why another process cannot import the main script; `None` if it can."""
    main = _main_script()
    if main is None:
        return say("not_portable_notebook")
    kind, name, _ = main
    if kind == "module" or _has_guard(name):
        return None
    return say("not_portable_script", script=Path(name).name)


def _main_script() -> tuple[str, str, tuple[str, ...]] | None:
    """Return how another process imports the main script; `None` if it cannot."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return "module", name, tuple(sys.argv)
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):  # noqa: PTH113 - a name such as `<stdin>` too
        return None
    return "path", os.path.abspath(path), tuple(sys.argv)  # noqa: PTH100 - links stay as they are


def _has_guard(path: str) -> bool:
    try:
        script = ast.parse(Path(path).read_bytes())
    except (OSError, ValueError, SyntaxError):
        return False
    return any(
        isinstance(node, ast.Name) and node.id == "__name__"
        for statement in script.body
        if isinstance(statement, ast.If)
        for node in ast.walk(statement.test)
    )


def target_of(function: Callable[..., Any]) -> Target:
    """Return how another process finds a function.

    Raises:
        ToolError: No other process can find it.
    """
    problem = why_not_portable(function)
    if problem is None:
        module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
        found: Any = sys.modules.get(module or "")
        for step in name.split("."):
            found = getattr(found, step, None)
        if module is not None and (found is function or _is_tool_of(found, function)):
            main = _main_script() if module == "__main__" else None
            return Target(None, module, name, found is not function, modules_in_folders(), main)
        try:
            pickled = pickle.dumps(function)
        except Exception as error:  # noqa: BLE001 - types of the tool may do anything
            problem = say("not_portable_type", name=name, type=type(error).__name__)
        else:
            main = _main_script() if b"__main__" in pickled else None
            return Target(pickled, "", name, False, modules_in_folders(), main)
    raise ToolError(say("not_portable", problem=problem), reason_code="not_portable")


def _is_tool_of(found: Any, function: Callable[..., Any]) -> bool:
    """Return whether `found`, which has the function's name, is the tool that decorates it."""
    return getattr(found, "function", None) is function


def unsendable(kind: str) -> ToolError:
    """Return the error for arguments that cannot be pickled."""
    return ToolError(
        say("unsendable_arguments", type=kind),
        status="invalid_argument",
        reason_code="unsendable_arguments",
    )


def find_function(
    pickled: bytes | None,
    module: str,
    name: str,
    is_tool: bool,
    folders: Iterable[tuple[str, str]] = (),
    main: tuple[str, str, Sequence[str]] | None = None,
) -> Callable[..., Any]:
    """Return the function of a target."""
    if main is not None:
        _load_main(*main)
    find_in_folders((beside, folder) for beside, folder in folders)
    if pickled is not None:
        return pickle.loads(pickled)  # type: ignore[no-any-return]  # noqa: S301 - from the parent
    found: Any = importlib.import_module(module)
    for step in name.split("."):
        found = getattr(found, step)
    return found.function if is_tool else found  # type: ignore[no-any-return]


def _load_main(kind: str, name: str, arguments: Sequence[str]) -> None:
    """Import the script of the parent under another name, as `multiprocessing` does."""
    if sys.modules["__main__"].__name__ == "__mp_main__":
        return
    sys.argv[:] = arguments
    module = ModuleType("__mp_main__")
    run = runpy.run_module if kind == "module" else runpy.run_path
    module.__dict__.update(run(name, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
