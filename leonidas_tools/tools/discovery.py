"""Find tools in modules, packages, files next to the settings, and entry points."""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.util
import inspect
import pkgutil
import sys
import traceback
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from leonidas_tools.errors import LeonidasError, RegistryError
from leonidas_tools.files.modules import find_in_folders, forget_in_folder
from leonidas_tools.redaction import redact_text
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.tools.tool import Tool, as_tool
from leonidas_tools.tools.toolbox import NoSettings, Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint

    from pydantic import BaseModel

    from leonidas_tools.tools.registry import AnyTool

logger = visible_logger(__name__)

ENTRY_POINT_GROUP = "leonidas_tools.toolboxes"
OWN_PACKAGE = "leonidas_tools.toolboxes"
OWN_TOOLBOXES: Mapping[str, str | None] = {
    "code": "sandbox",
    "delegate": "agent",
    "demo": None,
    "files": None,
    "launcher": None,
    "memory": "memory",
    "notes": None,
    "reminders": "reminders",
    "shell": "sandbox",
    "weather": None,
    "web": "web",
}
"""The toolboxes of this package, which load by their short name, each with its extra."""
_ELSEWHERE: Mapping[str, str] = {"delegate": "leonidas_tools.agent.delegation"}
"""Modules of the toolboxes that are not in `OWN_PACKAGE`."""

_IMPORTED_LATER: Mapping[str, Sequence[str]] = {
    "shell": ("tree_sitter", "tree_sitter_bash"),
    "web": ("ddgs", "lxml_html_clean", "trafilatura"),
}
"""Packages that a toolbox of this package imports only when a tool is called."""

_MAX_REASON_CHARACTERS = 500


def find_toolbox(name: str, folders: Sequence[Path] = ()) -> Toolbox:
    """Import and return the toolbox that the settings name.

    A name is looked up in this order: the toolboxes that ship with this package, the given
    folders, the entry points of installed packages, the modules that Python can import.

    Raises:
        RegistryError: The toolbox does not exist or cannot be imported.

    Example:
        >>> find_toolbox("demo").summary
        'Small example tools: made-up weather, dice, coins, flights, a log, \
money.'
    """
    if name in OWN_TOOLBOXES:
        return _find_own(name)
    if name.endswith(".py") or "/" in name:
        raise RegistryError(
            f"{name!r} is a file, and a toolbox is named as it is imported: write "
            f"{Path(name).stem!r}. It is looked for beside the settings and here"
        )
    top = name.partition(".")[0]
    for folder in folders:
        if _find_in(folder, name):
            return _toolbox_of(_import_from(folder, name))
    points = entry_points(group=ENTRY_POINT_GROUP, name=name)
    if points:
        return _merge_entry_points(name, [_load(point) for point in points])
    if importlib.machinery.PathFinder.find_spec(top) is None and top not in sys.modules:
        looked = ", ".join(map(str, folders)) or "no folder"
        there = [file.stem for folder in folders for file in folder.glob("*.py")]
        near = get_close_matches(name, [*there, *OWN_TOOLBOXES], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise RegistryError(
            f"There is no toolbox {name!r}{hint} Looked in: {looked}; the entry points "
            f"{ENTRY_POINT_GROUP!r}; the installed packages. Put {top}.py into one of these "
            f"folders, or name one that ships: {', '.join(OWN_TOOLBOXES)}"
        )
    return _toolbox_of(_import(name))


def build_tools(name: str, toolbox: Toolbox, settings: BaseModel) -> list[AnyTool]:
    """Return the tools that a toolbox creates from valid settings.

    Raises:
        RegistryError: The toolbox raises, or returns something that is not a tool.
    """
    try:
        return [as_tool(thing) for thing in toolbox.make(settings)]
    except Exception as error:  # code of the toolbox, which may raise anything
        extra = OWN_TOOLBOXES.get(name)
        if extra is not None and isinstance(error, ModuleNotFoundError):
            raise _not_installed(name, extra, str(error)) from error
        why = _reason(error)
        raise RegistryError(f"The toolbox {name!r} cannot make its tools: {why}") from error


def discover(module: str | ModuleType) -> list[AnyTool]:
    """Return the tools of a module, or of a package and all its modules.

    A module with `TOOLS` offers those. Any other module offers every `Tool` at its top level, and
    the tools of the objects there of its own classes.

    Raises:
        RegistryError: The module cannot be imported.

    Example:
        >>> [tool.name for tool in discover("leonidas_tools.toolboxes.demo")]
        ['get_weather', 'roll_dice', 'search_flights', 'offer_coin', 'read_log', 'send_money']
    """
    root = _import(module) if isinstance(module, str) else module
    found: dict[int, AnyTool] = {}
    modules = list(_modules(root))
    for one in modules:
        for tool in _tools_of(one):
            found.setdefault(id(tool), tool)
    plain = ", ".join(map(repr, _find_undecorated(modules)))
    if not found:
        message = "The toolbox %r has no tools: decorate %s with @tool, or list them in TOOLS"
        logger.warning(message, root.__name__, plain or "its functions")
    elif plain:
        logger.warning(
            "The toolbox %r does not offer %s: write @tool above a function that the model may "
            "call, and begin the name of any other with _",
            root.__name__,
            plain,
        )
    return list(found.values())


def _find_undecorated(modules: Iterable[ModuleType]) -> list[str]:
    """Return the public functions that are not tools and that nothing in the modules uses."""
    plain: list[str] = []
    used: set[str] = set()
    for module in modules:
        names = [
            name
            for name, thing in vars(module).items()
            if inspect.isfunction(thing)
            and thing.__module__ == module.__name__
            and thing.__name__ == name
            and not name.startswith("_")
        ]
        if hasattr(module, "TOOLS"):  # it lists the tools that are offered
            names = []
        plain += names
        try:
            tree = ast.parse(inspect.getsource(module))
        except (OSError, SyntaxError):  # it has no source
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                    used.add(name)
                case ast.ImportFrom(names=aliases):
                    used.update(alias.name for alias in aliases)
    return [name for name in plain if name not in used]


def _find_own(name: str) -> Toolbox:
    """Return a toolbox of this package; if packages are missing, raise an error with the extra."""
    extra = OWN_TOOLBOXES[name]
    try:
        toolbox = _toolbox_of(_import(_ELSEWHERE.get(name, f"{OWN_PACKAGE}.{name}")))
    except RegistryError as error:
        if extra is None or not isinstance(error.__cause__, ImportError):
            raise
        raise _not_installed(name, extra, str(error.__cause__)) from error
    for package in _IMPORTED_LATER.get(name, ()):
        if importlib.util.find_spec(package) is None:
            raise _not_installed(name, str(extra), f"No module named {package!r}")
    return toolbox


def _not_installed(name: str, extra: str, what: str) -> RegistryError:
    return RegistryError(
        f"The toolbox {name!r} needs packages that are not installed ({what}): "
        f"pip install 'leonidas-tools[{extra}]'"
    )


def _load(point: EntryPoint) -> Toolbox:
    """Return the toolbox of an entry point: of a module, a `Toolbox`, or one or several tools."""
    try:
        thing = point.load()
    except Exception as error:  # a module runs when it is imported, and may raise anything
        why = _reason(error)
        raise RegistryError(f"The entry point {point.name!r} cannot be loaded: {why}") from error
    if isinstance(thing, ModuleType):
        return _toolbox_of(thing)
    if isinstance(thing, Toolbox):
        return thing
    tools = [as_tool(one) for one in (thing if isinstance(thing, (list, tuple)) else [thing])]
    return _plain(f"Tools of {point.value}.", lambda: tools)


def _merge_entry_points(name: str, toolboxes: Sequence[Toolbox]) -> Toolbox:
    """Return the one toolbox, or all tools of several packages that use the same name."""
    first, *others = toolboxes
    if not others:
        return first
    if any(each.settings is not NoSettings for each in toolboxes):
        raise RegistryError(
            f"Several installed packages have a toolbox {name!r}, one of them with settings: "
            f"uninstall one, or name its module"
        )
    return _plain(
        first.summary, lambda: [one for each in toolboxes for one in each.make(NoSettings())]
    )


def _toolbox_of(module: ModuleType) -> Toolbox:
    """Return the `TOOLBOX` of a module, else a toolbox of its tools."""
    offered = getattr(module, "TOOLBOX", None)
    if offered is None:
        summary = (inspect.getdoc(module) or "").partition("\n")[0]
        return _plain(summary, lambda: discover(module))
    if not isinstance(offered, Toolbox):
        raise RegistryError(
            f"TOOLBOX in {module.__name__!r} is a {type(offered).__name__}: make it a Toolbox"
        )
    return offered


def _plain(summary: str, tools: Callable[[], Sequence[AnyTool | Callable[..., Any]]]) -> Toolbox:
    return Toolbox(summary=summary, make=lambda _: tools())


def _import_from(folder: Path, name: str) -> ModuleType:
    """Import a module from a folder, and nothing else from there; `sys.path` does not change."""
    home, top = str(folder.resolve()), name.partition(".")[0]
    loaded = sys.modules.get(top)
    if top in sys.stdlib_module_names or (loaded is not None and not _lies_in(loaded, home)):
        raise RegistryError(
            f"The toolbox {name!r} in {folder} has the name of a module that is imported already: "
            f"rename the file"
        )
    if loaded is None:
        find_in_folders([(top, home)])
    try:
        return _import(name)
    except RegistryError as error:
        if loaded is None:
            forget_in_folder(top, home)
        missing = getattr(error.__cause__, "name", None) or ""
        if isinstance(error.__cause__, ModuleNotFoundError) and _find_in(folder, missing):
            raise RegistryError(
                f"The toolbox {name!r} imports {missing!r}, which lies beside it, and only what "
                f"the settings name is imported from there: make a package of them, such as "
                f"{top}/__init__.py and {top}/{missing}.py, and write 'from . import {missing}'"
            ) from error
        raise


def _find_in(folder: Path, name: str) -> bool:
    top = name.partition(".")[0]
    return importlib.machinery.PathFinder.find_spec(top, [str(folder)]) is not None


def _lies_in(module: ModuleType, folder: str) -> bool:
    places = [module.__file__] if module.__file__ else list(getattr(module, "__path__", ()))
    return any(Path(place).resolve().is_relative_to(folder) for place in places)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a module runs when it is imported, and may raise anything
        raise RegistryError(f"The toolbox {name!r} cannot be imported: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return the error and its place; no call has run yet, so it contains no argument."""
    text, kind = str(error), type(error).__name__
    if not isinstance(error, LeonidasError):
        text = f"{kind}: {text}" if text else kind
    what = redact_text(text)
    if len(what) > _MAX_REASON_CHARACTERS:
        what = what[: _MAX_REASON_CHARACTERS - 1] + "…"
    place = None if isinstance(error, SyntaxError) else _place(error)
    return what if place is None else f"{what} ({place})"


def _place(error: Exception) -> str | None:
    """Return the file and line of the innermost frame outside this package and Python itself."""
    own = str(Path(__file__).parent)
    standard = str(Path(importlib.__file__).parent.parent)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((own, "<"))
        and not (frame.filename.startswith(standard) and "site-packages" not in frame.filename)
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def _modules(root: ModuleType) -> Iterator[ModuleType]:
    yield root
    for info in pkgutil.walk_packages(getattr(root, "__path__", []), f"{root.__name__}."):
        if not info.name.endswith("__main__"):
            yield _import(info.name)


def _tools_of(module: ModuleType) -> list[AnyTool]:
    listed = getattr(module, "TOOLS", None)
    if listed is not None:
        return [as_tool(thing) for thing in listed]
    members = [thing for _, thing in inspect.getmembers(module)]
    own = [
        thing
        for thing in members
        if isinstance(thing, Tool) and thing.function.__module__ == module.__name__
    ]
    return own + _methods(module, members)


def _methods(module: ModuleType, members: Iterable[object]) -> list[AnyTool]:
    """Return the tools of objects of the module's own classes; warn of a class without one."""
    found: list[AnyTool] = []
    classes: dict[type, list[str]] = {}
    made: set[type] = set()
    for thing in members:
        kind = thing if isinstance(thing, type) else type(thing)
        names = _tool_attributes(kind) if kind.__module__ == module.__name__ else []
        if not names:
            continue
        if isinstance(thing, type):
            classes[thing] = names
        else:
            made.update(kind.__mro__)
            found += [getattr(thing, name) for name in names]
    for kind, names in classes.items():
        if kind not in made:
            logger.warning(
                "The tools of the class %r in the toolbox %r are not offered (%s): make an object "
                "of it at the top level of the module, or list its tools in TOOLS",
                kind.__name__,
                module.__name__,
                ", ".join(names),
            )
    return found


def _tool_attributes(kind: type) -> list[str]:
    """Return the names of the methods that are tools; run no code of the class."""
    names = {name for one in kind.__mro__ for name in vars(one)}
    return sorted(n for n in names if isinstance(inspect.getattr_static(kind, n, None), Tool))
