"""Find settings and scenarios: in `./config`, or those that ship with the package."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.settings import OWN_CONFIGS

CONFIG_HELP = (
    "The settings file. Default: config/tools.yaml or tools.yaml in this folder, else the demo's."
)

Config: TypeAlias = Annotated[
    Path | None,
    # The code that reads the file explains a failure, and what to do; Click does only the first.
    typer.Option(metavar="FILE", envvar="LEONIDAS_CONFIG", help=CONFIG_HELP, readable=False),
]
"""The option of every command that reads settings."""

TOOLS = "`leonidas tools list` lists them"
"""Advice after an unknown name of a tool."""

_PACKAGE = Path(__file__).parents[1]


def is_typed(context: typer.Context, option: str) -> bool:
    """Return whether an option is on the command line, and not only in the environment."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def default_config() -> Path:
    """Return the settings file to use if none is named; print a note if it is the demo's."""
    from leonidas_tools.cli import terminal

    own = [file for file in OWN_CONFIGS if file.exists()]
    if not own:
        names = " or ".join(map(str, OWN_CONFIGS))
        message = f"No {names} in this folder: the demo settings are used (or name a file)"
        terminal.say(message, err=True)
        for other in _find_misnamed():
            message = f"{other} is ignored: rename it to {other.stem}.yaml, or add --config {other}"
            terminal.say(message, err=True)
        return _default_folder() / "tools.yaml"
    for other in own[1:]:
        message = f"{own[0]} is used, not {other}: to use that, add --config {other}"
        terminal.say(message, err=True)
    return own[0]


def _find_misnamed() -> list[Path]:
    names = [file.with_suffix(".yml") for file in OWN_CONFIGS]
    return [file for file in names if file.exists()]


def config_to_change() -> Path:
    """Return the settings file of this folder; if none exists, the one to create."""
    return next((file for file in OWN_CONFIGS if file.exists()), OWN_CONFIGS[0])


def configs_for(scenarios: Collection[Path]) -> list[Path]:
    """Return the settings file of each scenario: a built-in one has the built-in settings."""
    shipped = _default_folder().resolve()
    built_in = {each for each in scenarios if shipped in each.resolve().parents}
    own = default_config() if len(built_in) < len(set(scenarios)) else _default_folder()
    unused = next((file for file in OWN_CONFIGS if file.exists()), None)
    if built_in and unused is not None and unused.resolve() != shipped / "tools.yaml":
        from leonidas_tools.cli import terminal

        message = (
            f"Scenarios that ship play with settings of their own: for {unused}, "
            f"add --config {unused}"
        )
        terminal.say(message, err=True)
    return [_default_folder() / "tools.yaml" if each in built_in else own for each in scenarios]


def no_such(kind: str, name: str, near: Collection[str], next_step: str) -> str:
    """Return a message for a name that does not exist.

    Example:
        >>> no_such("tool", "rol_dice", ["roll_dice"], TOOLS)
        "There is no tool 'rol_dice': did you mean 'roll_dice'? `leonidas tools list` lists them"
    """
    hint = f"did you mean {next(iter(near))!r}? " if near else ""
    return f"There is no {kind} {name!r}: {hint}{next_step}"


def lines_of(config: Path) -> Mapping[str, int]:
    """Return the line of each key of a settings file by its dotted path."""
    from leonidas_tools.settings.document import read_document
    from leonidas_tools.settings.load import read_text

    lines = read_document(read_text(config)).lines
    return {".".join(map(str, key)): line for key, line in lines.items()}


def find_scenario(name: str) -> Path:
    """Return the file of a scenario.

    `name` is a path, or the name of a file in `config/scenarios` without its ending.
    """
    path = Path(name)
    if path.suffix == ".py":
        raise ConfigurationError(
            f"{name!r} is a program, not a scenario: name a YAML file, or run it with python"
        )
    if path.is_file():
        return path
    known: dict[str, Path] = {}
    for folder in _folders():
        for file in sorted((folder / "scenarios").glob("*.yaml")):
            known.setdefault(file.stem, file)
    if name in known:
        return known[name]
    if path.is_dir():
        raise ConfigurationError(f"{name!r} is a directory: name a scenario file in it")
    if path.suffix in {".yaml", ".yml"} or len(path.parts) > 1:
        close = get_close_matches(path.stem, known, n=1)
        ship = f"scenarios that ship are {', '.join(sorted(known))}"
        raise ConfigurationError(no_such("file", name, close, ship))
    close = get_close_matches(name, known, n=1)
    next_step = f"name a YAML file, or one of {', '.join(sorted(known))}"
    raise ConfigurationError(no_such("scenario", name, close, next_step))


def _folders() -> list[Path]:
    """Return the folders to search, first that of the working directory."""
    return [OWN_CONFIGS[0].parent, _default_folder()]


def _default_folder() -> Path:
    """Return the folder that ships with the package: in the wheel, or in the checkout."""
    inside = _PACKAGE / "_defaults"
    return inside if inside.is_dir() else _PACKAGE.parent / "config"
