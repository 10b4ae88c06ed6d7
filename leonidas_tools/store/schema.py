"""The schema's versions: what is new is made, what is old is upgraded, what is newer is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import inspect, text
from sqlalchemy.schema import CreateColumn

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.store.tables import TABLES, approvals, executions, runs, schema_version, tasks

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

Upgrade: TypeAlias = Callable[["Connection"], None]
"""Makes a database of one version one of the next, in a transaction."""


def _tell_more_of_approvals(connection: Connection) -> None:
    """Version 2: who has answered and how, and whose a task list is."""
    _add_columns(connection, approvals, "rule", "on_expiry", "answer", "channel", "edited", "run")
    _add_columns(connection, tasks, "user")


def _find_calls_by_id(connection: Connection) -> None:
    """Version 3: a repeated call is found by its id."""
    for index in executions.indexes:
        if index.name == "executions_by_call_id":
            index.create(connection, checkfirst=True)


def _tell_locks_of_runs(connection: Connection) -> None:
    """Version 4: a session with PostgreSQL says that a process lives."""
    _add_columns(connection, runs, "lock")


UPGRADES: Sequence[Upgrade] = (_tell_more_of_approvals, _find_calls_by_id, _tell_locks_of_runs)
"""The first makes version 2 of version 1."""

_POSTGRES_LOCK = 4_776_320_109
"""The key of a lock: one process at a time creates or upgrades the schema."""


def prepare(connection: Connection, upgrades: Sequence[Upgrade] = UPGRADES) -> int:
    """Make the tables, or upgrades them, within the connection's transaction.

    Args:
        connection: In a transaction that writes.
        upgrades: What there is between version 1 and the newest.

    Returns:
        The version that was found; 0 where there was nothing.

    Raises:
        ConfigurationError: The database is of a newer version than is known here.
    """
    newest = 1 + len(upgrades)
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
    if not inspect(connection).has_table(schema_version.name):
        TABLES.create_all(connection)
        connection.execute(schema_version.insert().values(version=newest))
        return 0
    found = connection.execute(schema_version.select()).scalar_one()
    if found > newest:
        raise ConfigurationError(
            f"The store is of version {found}, and this library knows {newest} at most: "
            "update leonidas-tools, or name another store",
            key="store.url",
        )
    for upgrade in upgrades[found - 1 :]:
        upgrade(connection)
    if found < newest:
        connection.execute(schema_version.update().values(version=newest))
    return int(found)


def _add_columns(connection: Connection, table: Table, *names: str) -> None:
    for name in names:
        column = CreateColumn(table.c[name]).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column}"))
