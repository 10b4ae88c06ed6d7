"""The options and output that the commands about the store share."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from leonidas_tools.cli.places import default_config, no_such
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.store import Store

T = TypeVar("T")

MOST_ROWS = 1_000_000
SESSIONS = "`leonidas history sessions` lists them"
_SQLITE = b"SQLite format 3\0"

Place = Annotated[
    str | None,
    typer.Option("--store", help="A file or an address; else store.url of the settings."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON object a line.")]


def answer(ask: "Callable[[Store], Awaitable[T]]", config: Path | None, place: str | None) -> T:
    """Return what the store answers.

    Raises:
        ConfigurationError: There is no such file, or it is not a store.
    """
    from leonidas_tools.settings.load import load
    from leonidas_tools.store import Store
    from leonidas_tools.store.address import database_url

    kept = None if place else load(config or default_config()).store
    where = place if kept is None else kept.url
    key = "--store" if place else "store.url"
    url = database_url(where, key=key)
    if url.get_backend_name() == "sqlite":
        file = Path(url.database or "")
        if not file.exists():
            if place:
                said = f"The store {str(file)!r} does not exist: correct the path"
                raise ConfigurationError(said, key=key)
            todo = (
                "run a session with these settings first"
                if kept is not None and kept.enabled
                else "write `store: {enabled: true}` into the settings"
            )
            raise ConfigurationError(
                f"Nothing is stored yet: there is no store {str(file)!r}; {todo}, "
                "or name a store with --store"
            )
        _check_file(file)

    async def asked() -> T:
        async with Store(where) as store:
            return await ask(store)

    return asyncio.run(asked())


def _check_file(file: Path) -> None:
    """Refuse a file that is not a database: opened as a store, it would be set aside.

    Raises:
        ConfigurationError: The file is not a database, or cannot be read.
    """
    from leonidas_tools.files.reading import open_file, why_unreadable

    try:
        with open_file(file) as opened:
            begins = opened.read(len(_SQLITE))
    except OSError as error:
        raise ConfigurationError(why_unreadable(error), file=file) from None
    if begins not in {_SQLITE, b""}:
        raise ConfigurationError("is not a store: name the file of a store", file=file)


def no_session(name: str) -> ConfigurationError:
    """Return the error for a session of which the store has nothing."""
    return ConfigurationError(no_such("session", name, (), SESSIONS))


def write_lines(rows: Iterable[Any]) -> None:
    """Write one JSON object a line."""
    from leonidas_tools.cli import terminal

    for row in rows:
        terminal.write_json(row.to_json())


def when(at: float) -> str:
    """Return a local time as text."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
