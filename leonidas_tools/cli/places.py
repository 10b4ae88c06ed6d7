"""Where settings and scenarios are: in `./config`, else those that come with the package."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from leonidas_tools.errors import ConfigurationError

Config: TypeAlias = Annotated[
    Path | None,
    typer.Option(envvar="LEONIDAS_CONFIG", help="The settings; else config/tools.yaml."),
]
"""The option of every command that reads settings."""

_PACKAGE = Path(__file__).parents[1]


def default_config() -> Path:
    """The settings file that holds where none is named."""
    return next(folder / "tools.yaml" for folder in _folders() if (folder / "tools.yaml").exists())


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
    shipped = _PACKAGE / "_defaults"
    return [Path("config"), shipped if shipped.is_dir() else _PACKAGE.parent / "config"]
