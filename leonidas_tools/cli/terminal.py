"""Write results to standard output, and messages to standard error."""

import json
import sys
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from leonidas_tools.redaction.visible import visible, visible_json

LINE_WIDTH = 160
"""The width of a line, in characters, if the output is not a terminal."""


def output() -> Console:
    """Return the console for results."""
    return _console(stderr=False)


def messages() -> Console:
    """Return the console for messages."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else LINE_WIDTH
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


class _Console(Console):
    """A console that escapes control and format characters in external texts.

    Each print is one line: an external text cannot begin another line.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """Print each text on one line."""
        super().print(*map(_on_one_line, objects), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render with control characters escaped."""
        if isinstance(renderable, str):
            renderable = visible(renderable, keep="\n")
        elif isinstance(renderable, Text):
            shown = visible(renderable.plain, keep="\n")
            if shown != renderable.plain:
                renderable = Text(shown, style=renderable.style)
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text, keep="\n"), segment.style)


def _on_one_line(shown: Any) -> Any:
    if isinstance(shown, str):
        return visible(shown)
    if isinstance(shown, Text) and "\n" in shown.plain:
        lines = list(shown.split("\n"))
        return Text("<U+000A>").join(lines)
    return shown


def line(text: str) -> Text:
    """Return a text on one line, for functions that parse a string as markup."""
    return Text(visible(text))


def lines(text: str) -> Text:
    """Return a text with its lines, for a cell of a table; not for the first column."""
    return Text(visible(text, keep="\n"))


def say(text: str, *, err: bool = False) -> None:
    """Write a text on one line: to standard output, or to standard error."""
    typer.echo(visible(text), err=err)


def write_json(value: Any, *, indent: int | None = None) -> None:
    """Write a value to standard output and flush it; control characters are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    sys.stdout.write(visible_json(text) + "\n")
    sys.stdout.flush()


class _Table(Table):
    """A table in which a text is one line of its cell; a narrow terminal shows it as records."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render a line for each cell if the table is too wide for the terminal."""
        needed = Measurement.get(console, options.update_width(LINE_WIDTH), self).minimum
        if not (self.show_header and console.is_terminal and needed > options.max_width):
            yield from super().__rich_console__(console, options)
            return
        for index in range(self.row_count):
            if index:
                yield ""
            cells = Table.grid(padding=(0, 2))
            cells.add_column(style="bold", no_wrap=True)
            cells.add_column(overflow="fold")
            for column in self.columns:
                cells.add_row(column.header, list(column.cells)[index])
            yield cells

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row; only a `Text` may have several lines."""
        super().add_row(*(visible(c) if isinstance(c, str) else c for c in cells), **options)


def table(console: Console, *columns: str, title: str | None = None) -> Table:
    """Return a table, without borders unless the output is a terminal."""
    made = _Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    if not console.is_terminal:
        made.box = None
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def one_line(value: Any, width: int) -> str:
    """Return a text, or a value as JSON, on one line and truncated to a width."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
