"""`leonidas policy reference`: what each policy does, how to switch it on, what the model hears."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from leonidas_tools.errors import ConfigurationError

_FOLDER = Path(__file__).parents[1] / "reference"


def reference(
    page: Annotated[
        str | None, typer.Argument(help="A name from the list, such as cache or approval.")
    ] = None,
) -> None:
    """List the pages about policies, or show one.

    A page says what a policy does, how it is switched on, what the model is told, what can be set,
    what it costs, and what it does not do. Without a terminal, the output is Markdown.

    Example: leonidas policy reference cache
    """
    from leonidas_tools.cli import terminal

    console = terminal.output()
    pages = {file.stem: file for file in sorted(_FOLDER.glob("*.md"))}
    if page is None:
        rows = terminal.table(console, "page", "about")
        for name, file in pages.items():
            rows.add_row(name, _first_sentence(file.read_text(encoding="utf-8")))
        console.print(rows)
        return
    if page not in pages:
        close = get_close_matches(page, pages, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(pages)}"
        raise ConfigurationError(f"There is no page {page!r}: {hint}")
    text = pages[page].read_text(encoding="utf-8")
    if not console.is_terminal:
        typer.echo(text, nl=False)
        return
    from rich.markdown import Markdown

    console.print(Markdown(text))


def _first_sentence(text: str) -> str:
    """Return what a page is about: the first sentence below its title."""
    _, _, about, *_ = text.splitlines()
    return about.partition(". ")[0].removesuffix(".").replace("`", "") + "."
