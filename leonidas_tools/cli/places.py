"""Where settings and scenarios are: in `./config`, else those that come with the package."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from leonidas_tools.errors import ConfigurationError

DEFAULT_CONFIG_HELP = "else ./config/tools.yaml, else the demo settings of the package."

Config: TypeAlias = Annotated[
    Path | None,
    typer.Option(envvar="LEONIDAS_CONFIG", help=f"The settings; {DEFAULT_CONFIG_HELP}"),
]
"""The option of every command that reads settings."""

_PACKAGE = Path(__file__).parents[1]


def default_config() -> Path:
    """Return the settings file that is used if none is named."""
    return next(folder / "tools.yaml" for folder in _folders() if (folder / "tools.yaml").exists())


def config_for(scenario: Path) -> Path:
    """Return the settings to play a scenario with: its own, for one that ships."""
    shipped = _shipped()
    if shipped.resolve() in scenario.resolve().parents:
        return shipped / "tools.yaml"
    return default_config()


def lines_of(config: Path) -> Mapping[str, int]:
    """Return the line of each key of a settings file by its dotted path."""
    from leonidas_tools.settings.document import read_document
    from leonidas_tools.settings.load import read_text

    lines = read_document(read_text(config)).lines
    return {".".join(map(str, key)): line for key, line in lines.items()}


def find_scenario(name: str) -> Path:
    """The file of a scenario.

    Args:
        name: A path, or the name of a file in `config/scenarios` without its ending.

    Raises:
        ConfigurationError: There is no such scenario.
    """
    path = Path(name)
    if path.is_file():
        return path
    known: dict[str, Path] = {}
    for folder in _folders():
        for file in sorted((folder / "scenarios").glob("*.yaml")):
            known.setdefault(file.stem, file)
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
    raise ConfigurationError(f"There is no scenario {name!r}: give a file, or a name; {hint}")


def _folders() -> list[Path]:
    """The working directory's first, then the package's: a wheel's own, or the checkout's."""
    return [Path("config"), _shipped()]


def _shipped() -> Path:
    inside = _PACKAGE / "_defaults"
    return inside if inside.is_dir() else _PACKAGE.parent / "config"
