"""The tables, and the upgrades of older versions of the schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Any, NewType, TypeAlias, get_args

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    event,
    inspect,
    text,
)
from sqlalchemy.schema import CreateColumn

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.session.user_data import Memory, Note, Reminder
from leonidas_tools.store.rows import Approval, Execution, KeptResult, Preferences

if TYPE_CHECKING:
    from sqlalchemy import Connection

TABLES = MetaData()
_BIG = NewType("_BIG", int)

_TYPES: dict[Any, Any] = {
    str: Text, int: Integer, float: Double, bool: Boolean, bytes: LargeBinary, _BIG: BigInteger,
}  # fmt: skip


class Json(TypeDecorator[Any]):
    """JSON in a column of text: written as text, masked and bounded before; parsed when read."""

    impl = Text
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: object) -> Any:
        """Return the parsed value."""
        del dialect
        return None if value is None else json.loads(value)


def _table(name: str, key: str, row: type | None = None, /, **more: Any) -> Table:
    """Declare a table by Python types: those of the fields of `row`, and of `more` columns.

    What is neither text, a number nor bytes is JSON. A column may be NULL if its type or its
    default is `None`; a type `None` in `more` leaves a field of `row` out.
    """
    types: dict[str, Any] = {}
    for each in () if row is None else fields(row):
        type_: Any = each.type
        types[each.name] = type_ if each.default is not None else type_ | None
    columns = [
        type_ if isinstance(type_, Column) else _column(column, type_, is_key=column in key.split())
        for column, type_ in (types | more).items()
        if type_ is not None
    ]
    # A number is never reused: processes remember the last.
    return Table(name, TABLES, *columns, sqlite_autoincrement=True)


def _column(name: str, type_: Any, *, is_key: bool) -> Column[Any]:
    kinds = get_args(type_) if NoneType in get_args(type_) else (type_,)
    return Column(name, _TYPES.get(kinds[0], Json), primary_key=is_key, nullable=NoneType in kinds)


schema_version = _table("schema_version", "", version=int)
runs = _table(
    "runs", "id",
    id=str, host=str, process=int, started=float, seen=float, ended=float | None, lock=str | None,
)  # fmt: skip
"""One row for each opening of the store, to identify the calls of dead processes."""

executions = _table("executions", "id", Execution, run=str, steps=Any | None)
Index("executions_by_time", executions.c.started)
Index("executions_by_session", executions.c.session, executions.c.started)
Index("executions_by_call_id", executions.c.session, executions.c.call_id)
Index("executions_by_tool", executions.c.tool, executions.c.started)
_open = executions.c.ended.is_(None)
Index("executions_open", executions.c.run, sqlite_where=_open, postgresql_where=_open)

approvals = _table("approvals", "id", Approval, decision=str | None, run=str | None)
Index("approvals_by_session", approvals.c.session, approvals.c.requested)

preferences = _table("preferences", "user", Preferences, values=None, data=str)
tasks = _table(
    "tasks", "session user id",
    session=str, user=str, id=str, title=str, status=str, position=int, calls=Any, updated=float,
)  # fmt: skip

results = _table("results", "handle", KeptResult, size=_BIG, content=bytes)
Index("results_by_expiry", results.c.expires)

notes = _table("notes", "number", Note, number=int, user=str, words=str)
UniqueConstraint(notes.c.id)
Index("notes_by_user", notes.c.user, notes.c.updated)
note_tags = _table("note_tags", "note tag", note=str, tag=str)
for _statement in (
    """CREATE VIRTUAL TABLE note_words USING
    fts5(words, content='notes', content_rowid='number', tokenize='ascii')""",
    """CREATE TRIGGER notes_after_insert AFTER INSERT ON notes BEGIN
    INSERT INTO note_words(rowid, words) VALUES (new.number, new.words); END""",
    """CREATE TRIGGER notes_after_delete AFTER DELETE ON notes BEGIN
    INSERT INTO note_words(note_words, rowid, words) VALUES ('delete', old.number, old.words);
    END""",
):
    _made = DDL(_statement)  # type: ignore[no-untyped-call]
    event.listen(notes, "after_create", _made.execute_if(dialect="sqlite"))
_made = DDL(  # type: ignore[no-untyped-call]
    "CREATE INDEX notes_by_words ON notes USING gin (to_tsvector('simple', words))"
)
event.listen(notes, "after_create", _made.execute_if(dialect="postgresql"))

reminders = _table(
    "reminders", "id", Reminder, undelivered=Column("untold", Double, key="undelivered")
)
Index("reminders_by_due", reminders.c.due)
Index("reminders_by_user", reminders.c.user)

memories = _table(
    "memories", "number", Memory,
    similarity=None, number=int, user=str, space=str, digest=str, vector=bytes,
)  # fmt: skip
UniqueConstraint(memories.c.id)
Index("memories_by_user", memories.c.user, memories.c.space, memories.c.number)
Index("memories_by_digest", memories.c.user, memories.c.space, memories.c.digest, unique=True)

conversations = _table(
    "conversations", "id", id=str, user=str, run=str, started=float, ended=float | None
)
Index("conversations_by_user", conversations.c.user, conversations.c.started)

usage = _table(
    "usage", "id",
    id=str, session=str, user=str, at=float, turn=int, model=str, tokens=Any,
    input_tokens=_BIG, output_tokens=_BIG, cost=float | None,
)  # fmt: skip
Index("usage_by_session", usage.c.session, usage.c.at)
Index("usage_by_user", usage.c.user, usage.c.at)

cached_results = _table(
    "cached_results", "key",
    key=str, tool=str, arguments=str, size=int, created=float, expires=float, content=str,
)  # fmt: skip
_by_tool = (cached_results.c[name] for name in ("tool", "created", "size"))
Index("cached_results_by_tool", *_by_tool)
Index("cached_results_by_expiry", cached_results.c.expires)
cache_generations = _table("cache_generations", "tool", tool=str, generation=int)
"""The number of invalidations by tool; the empty name counts those of all tools."""


Upgrade: TypeAlias = Callable[["Connection"], None]
"""Upgrades a database by one version, in a transaction."""


def _add_approval_details(connection: Connection) -> None:
    """Upgrade to version 2: details of answers, and owners of task lists."""
    _add_columns(connection, approvals, "rule", "on_expiry", "answer", "channel", "edited", "run")
    connection.execute(text('ALTER TABLE tasks ADD COLUMN "user" TEXT'))


def _index_call_ids(connection: Connection) -> None:
    """Upgrade to version 3: an index to find repeated calls by id."""
    for index in executions.indexes:
        if index.name == "executions_by_call_id":
            index.create(connection, checkfirst=True)


def _add_run_locks(connection: Connection) -> None:
    """Upgrade to version 4: the PostgreSQL session that shows that a process is alive."""
    _add_columns(connection, runs, "lock")


def _keep_tasks_of_users_apart(connection: Connection) -> None:
    """Upgrade to version 10: separate task lists of users whose sessions share an id.

    Lists without an owner, which version 1 wrote, become those of no user.
    """
    connection.execute(text("ALTER TABLE tasks RENAME TO earlier_tasks"))
    if connection.dialect.name == "postgresql":  # it keeps its name, which the new one needs
        connection.execute(text("ALTER INDEX tasks_pkey RENAME TO earlier_tasks_pkey"))
    TABLES.create_all(connection, [tasks])
    names = "session, id, title, status, position, calls, updated"
    connection.execute(
        text(
            f"""INSERT INTO tasks ({names}, "user") SELECT {names}, coalesce("user", 'local')
            FROM earlier_tasks"""  # noqa: S608 - the names stand above
        )
    )
    connection.execute(text("DROP TABLE earlier_tasks"))


def _keep_results_of_users_apart(connection: Connection) -> None:
    """Upgrade to version 11: the user of a long result; earlier results have none."""
    _add_columns(connection, results, "user")


def _add(*tables: Table) -> Upgrade:
    """Return the upgrade that adds tables."""
    return lambda connection: TABLES.create_all(connection, tables)


UPGRADES: Sequence[Upgrade] = (
    _add_approval_details,
    _index_call_ids,
    _add_run_locks,
    _add(notes, note_tags),
    _add(reminders),
    _add(memories),
    _add(conversations),
    _add(cached_results, cache_generations),
    _keep_tasks_of_users_apart,
    _keep_results_of_users_apart,
    _add(usage),
)
"""The upgrades to version 2, 3 and so on."""

_POSTGRES_LOCK = 4_776_320_109
"""The key of a lock: one process at a time creates or upgrades the schema."""


def prepare(connection: Connection, upgrades: Sequence[Upgrade] = UPGRADES) -> int:
    """Create or upgrade the tables in a write transaction; return the previous version, or 0.

    Raises:
        ConfigurationError: The database has a newer version than this library.
    """
    newest = 1 + len(upgrades)
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
    if not inspect(connection).has_table(schema_version.name):
        TABLES.create_all(connection, checkfirst=False)
        connection.execute(schema_version.insert().values(version=newest))
        return 0
    version = connection.execute(schema_version.select()).scalar_one()
    if version > newest:
        raise ConfigurationError(
            f"The store has version {version}, but this library supports up to {newest}: "
            "update leonidas-tools, or name another store",
            key="store.url",
        )
    for upgrade in upgrades[version - 1 :]:
        upgrade(connection)
    if version < newest:
        connection.execute(schema_version.update().values(version=newest))
    return int(version)


def _add_columns(connection: Connection, table: Table, *names: str) -> None:
    for name in names:
        column = CreateColumn(table.c[name]).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column}"))
