"""Turn a path or an address into a database URL."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.data_directory import data_directory

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
_DIALECTS = {"sqlite": "sqlite", "postgresql": "postgresql", "postgres": "postgresql"}

_ADDRESSES = "the path of a file, sqlite:///FILE or postgresql://user:password@host/name"


def default_file() -> Path:
    """Return the default file, in the user's data directory."""
    return data_directory() / "leonidas.db"


def database_url(where: str | Path | None, *, key: str = "store.url") -> URL:
    """Return the URL of a database with its driver.

    `where` is a path, or an address such as `sqlite:///kept.db` or `postgresql://host/name`; by
    default the user's file. `key` is the setting or option that an error names.

    Raises:
        ConfigurationError: The address is invalid, or its driver is not installed.

    Example:
        >>> str(database_url("kept.db")), str(database_url("postgresql://db/leonidas"))
        ('sqlite+aiosqlite:///kept.db', 'postgresql+asyncpg://db/leonidas')
    """
    if where is None:
        return _file_url(default_file())
    if isinstance(where, Path) or "://" not in where:
        return _file_url(Path(where).expanduser())
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            f"The address of the store is invalid; write {_ADDRESSES}",
            key=key,
        ) from None
    dialect = _DIALECTS.get(url.get_backend_name())
    if dialect is None:
        raise ConfigurationError(
            f"The store does not support {url.get_backend_name()!r}; write {_ADDRESSES}",
            key=key,
        )
    if dialect == "postgresql" and importlib.util.find_spec("asyncpg") is None:
        raise ConfigurationError(
            "The store needs a driver for PostgreSQL; install it with "
            "pip install 'leonidas-tools[postgres]'",
            key=key,
        )
    file = url.database or ":memory:"
    if dialect == "sqlite" and (file == ":memory:" or file.startswith("file:")):
        raise ConfigurationError(
            "The store needs a file that outlives the process; name one: sqlite:///kept.db",
            key=key,
        )
    return url.set(drivername=_DRIVERS[dialect])


def _file_url(path: Path) -> URL:
    return URL.create(_DRIVERS["sqlite"], database=str(path))
