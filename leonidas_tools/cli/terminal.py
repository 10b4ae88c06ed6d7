"""What commands write with: results to standard output, all else to standard error."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

LINE_WIDTH = 160
"""How long a line is where there is no terminal to tell."""


def output() -> Console:
    """For what was asked for."""
    return _console(stderr=False)


def messages() -> Console:
    """For what goes on meanwhile."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else LINE_WIDTH
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def write_json(value: Any, *, indent: int | None = None) -> None:
    """Writes a value to standard output, at once."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def table(console: Console, *columns: str, title: str | None = None) -> Table:
    """A table; without lines where they would be noise in a file."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    if not console.is_terminal:
        made.box = None
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def one_line(value: Any, width: int) -> str:
    """A value as JSON, cut to a width."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
