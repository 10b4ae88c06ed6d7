"""`leonidas toolboxes`: the available toolboxes, and what their tools may do."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leonidas_tools.cli.places import Config, default_config, no_such
from leonidas_tools.errors import ConfigurationError, RegistryError

if TYPE_CHECKING:
    from leonidas_tools.runtime.toolboxes import Reach
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.tools.registry import AnyTool
    from leonidas_tools.tools.toolbox import Toolbox

_NOT_IMPORTED = "not imported"
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class _Listed:
    """A toolbox that the settings may name."""

    name: str
    source: str  # `built-in`, `installed` or a file
    state: str  # whether it can be loaded, or why not
    toolbox: "Toolbox | None" = None  # `None` if it was not imported
    tools: "Sequence[AnyTool]" = ()  # created with its settings, or with their defaults
    reach: "Reach | None" = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "state": self.state,
            "summary": "" if self.toolbox is None else self.toolbox.summary,
            "access": [] if self.toolbox is None else sorted(self.toolbox.access),
            "reach": None if self.reach is None else asdict(self.reach),
            "tools": [_may(tool) for tool in self.tools],
            "settings": [] if self.toolbox is None else _settings(self.toolbox),
        }


def toolboxes(
    name: Annotated[
        str | None, typer.Argument(help="A toolbox: its tools and settings are shown.")
    ] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """List the toolboxes, or show one: its tools, their access and its settings.

    The list has the built-in toolboxes, those of installed packages, and the files next to the
    settings and in the working directory. Installed toolboxes and files are imported only if the
    settings or the command name them.

    Example: leonidas toolboxes

    Example: leonidas toolboxes demo --json
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.settings.load import load

    path = config or default_config()
    settings = load(path)
    if name is not None:
        _show(_one(name, settings, path), as_json=as_json)
        return
    listed = list(_list_toolboxes(settings, path))
    if as_json:
        terminal.write_json([each.to_json() for each in listed])
        return
    console = terminal.output()
    rows = terminal.table(console, "toolbox", "source", "state", "reach", "tools", "summary")
    for each in listed:
        said = each.to_json()
        tools = ", ".join(tool["name"] for tool in said["tools"])
        reach = "" if each.reach is None else str(each.reach)
        rows.add_row(each.name, each.source, each.state, reach, tools, said["summary"])
    console.print(rows)


def _show(shown: _Listed, *, as_json: bool) -> None:
    from leonidas_tools.cli import terminal

    said = shown.to_json()
    if as_json:
        terminal.write_json(said)
        return
    console = terminal.output()
    rows = terminal.table(console, "", "")
    rows.show_header = False
    for key in ("name", "source", "state", "summary"):
        rows.add_row(key, said[key])
    rows.add_row("access", ", ".join(said["access"]) or "none")
    rows.add_row("reach", "" if shown.reach is None else str(shown.reach))
    console.print(rows)
    rows = terminal.table(console, "tool", "effect", "asks first", "description")
    for tool in said["tools"]:
        asks = "yes" if tool["requires_approval"] else "no"
        rows.add_row(tool["name"], tool["effect"], asks, tool["description"])
    console.print(rows)
    if said["settings"]:
        rows = terminal.table(console, "setting", "default", "")
        for each in said["settings"]:
            rows.add_row(each["name"], each["default"], each["description"])
        console.print(rows)


def _one(name: str, settings: "Settings", file: Path) -> _Listed:
    sources = {named: source for source, named in _names(settings, _folders(file))}
    if name not in sources:
        from difflib import get_close_matches

        near = get_close_matches(name, sources, n=1)
        raise ConfigurationError(no_such("toolbox", name, near, "`leonidas toolboxes` lists them"))
    return _load_toolbox(sources[name], name, settings, file)


def _folders(file: Path) -> list[Path]:
    """Return the folders where toolboxes are searched, given the settings file."""
    return list(dict.fromkeys([file.resolve().parent, Path.cwd()]))


def _list_toolboxes(settings: "Settings", file: Path) -> Iterator[_Listed]:
    named = {toolbox.name for toolbox in settings.toolboxes}
    for source, name in _names(settings, _folders(file)):
        if source == "built-in" or name in named:
            yield _load_toolbox(source, name, settings, file)
        else:
            yield _Listed(name=name, source=source, state=_NOT_IMPORTED)


def _names(settings: "Settings", folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield the source of each toolbox, and its name."""
    from importlib.metadata import entry_points

    from leonidas_tools.tools.discovery import ENTRY_POINT_GROUP, OWN_TOOLBOXES

    found = [("built-in", name) for name in OWN_TOOLBOXES]
    found += [
        (str(file), file.stem)
        for folder in folders
        for file in sorted(folder.glob("*.py"))
        if _offers_tools(file)
    ]
    found += [("installed", point.name) for point in entry_points(group=ENTRY_POINT_GROUP)]
    found += [("settings", toolbox.name) for toolbox in settings.toolboxes]
    seen: set[str] = set()
    for source, name in found:  # in the order in which a name is looked up
        if name not in seen:
            seen.add(name)
            yield source, name


def _offers_tools(file: Path) -> bool:
    """Return whether a file looks like a toolbox; parse the file without running it."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            return False
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    return any(_is_of_toolbox(statement) for statement in tree.body)


def _is_of_toolbox(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        called = [d.func if isinstance(d, ast.Call) else d for d in statement.decorator_list]
        return any(ast.unparse(each).rpartition(".")[2] == "tool" for each in called)
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return any(isinstance(each, ast.Name) and each.id in ("TOOLBOX", "TOOLS") for each in targets)


def _load_toolbox(source: str, name: str, settings: "Settings", file: Path) -> _Listed:
    """Import a toolbox, and create its tools with its settings or their defaults."""
    from leonidas_tools.runtime.ruling import find_refused_root
    from leonidas_tools.runtime.toolboxes import build_opened_roots, reach_of, read_toolbox_settings
    from leonidas_tools.settings.problem import Problem
    from leonidas_tools.settings.toolbox_settings import ToolboxSettings
    from leonidas_tools.tools.discovery import build_tools, find_toolbox

    named = {toolbox.name: toolbox for toolbox in settings.toolboxes}
    try:
        toolbox = find_toolbox(name, _folders(file))
    except RegistryError as error:
        return _Listed(name=name, source=source, state=str(error))
    given = named.get(name, ToolboxSettings(name=name))
    opened = build_opened_roots(file)
    own, problems = read_toolbox_settings(toolbox.settings, given, settings.written, opened)
    if (refused := find_refused_root(settings, file, opened.opened, ())) is not None:
        own, problems = None, [*problems, Problem(refused[1], (refused[0],))]
    if own is None:
        what = "; ".join(
            f"{'.'.join(map(str, each.path))} {each.message}".strip() for each in problems
        )
        state = f"wrong settings: {what}" if name in named else f"needs settings: {what}"
        return _Listed(name=name, source=source, state=state, toolbox=toolbox)
    try:
        tools = build_tools(name, toolbox, own)
    except RegistryError as error:
        return _Listed(name=name, source=source, state=str(error), toolbox=toolbox)
    state = "in the settings" if name in named else "can be loaded"
    return _Listed(
        name=name,
        source=source,
        state=state,
        toolbox=toolbox,
        tools=tools,
        reach=reach_of(toolbox, own, opened),
    )


def _may(tool: "AnyTool") -> dict[str, Any]:
    """Return the properties that a tool declares, such as its effect."""
    from leonidas_tools.rules.subject import subject_of
    from leonidas_tools.settings.models import ToolConfiguration

    about = tool.metadata
    subject = subject_of(about, ToolConfiguration())
    return {
        "name": tool.name,
        "description": about.description.partition("\n")[0],
        "effect": about.effect.value,
        "requires_approval": subject.requires_approval or bool(subject.risk),
    }


def _settings(toolbox: "Toolbox") -> list[dict[str, str]]:
    """Return the settings of a toolbox as JSON Schema has them: name, default, meaning."""
    from docstring_parser import parse

    model = toolbox.settings
    schema = model.model_json_schema()
    told = {each.arg_name: each.description or "" for each in parse(model.__doc__ or "").params}
    return [
        {
            "name": name,
            "default": "required" if name in schema.get("required", ()) else _default(setting),
            "description": " ".join((setting.get("description") or told.get(name, "")).split()),
        }
        for name, setting in schema.get("properties", {}).items()
    ]


def _default(setting: dict[str, Any]) -> str:
    value = setting.get("default")
    return "" if value in (None, [], {}, "") else str(value)
