"""The tables, and the upgrades of older versions of the schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

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
    event,
    inspect,
    text,
)
from sqlalchemy.schema import CreateColumn

from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import Connection

TABLES = MetaData()

schema_version = Table("schema_version", TABLES, Column("version", Integer, nullable=False))

runs = Table(
    "runs",
    TABLES,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("process", Integer, nullable=False),
    Column("started", Double, nullable=False),
    Column("seen", Double, nullable=False),
    Column("ended", Double),
    Column("lock", Text),
)
"""One row for each opening of the store, to identify the calls of dead processes."""

executions = Table(
    "executions",
    TABLES,
    Column("id", Text, primary_key=True),
    Column("run", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("call_id", Text),
    Column("tool", Text, nullable=False),
    Column("effect", Text),
    Column("arguments", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("status", Text, nullable=False),
    Column("ending", Text),
    Column("result", Text),
    Column("message", Text),
    Column("reason", Text),
    Column("ended", Double),
    Column("seconds", Double),
    Column("approval_id", Text),
    Column("cached", Boolean, nullable=False),
    Column("steps", Text),
    Column("acknowledged", Double),
)
Index("executions_by_time", executions.c.started)
Index("executions_by_session", executions.c.session, executions.c.started)
Index("executions_by_call_id", executions.c.session, executions.c.call_id)
Index("executions_by_tool", executions.c.tool, executions.c.started)
_open = executions.c.ended.is_(None)
Index("executions_open", executions.c.run, sqlite_where=_open, postgresql_where=_open)

approvals = Table(
    "approvals",
    TABLES,
    Column("id", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("call_id", Text),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("fingerprint", Text),
    Column("message", Text),
    Column("requested", Double, nullable=False),
    Column("expires", Double),
    Column("decision", Text),
    Column("decided", Double),
    Column("decided_by", Text),
    Column("note", Text),
    Column("rule", Text),
    Column("on_expiry", Text),
    Column("answer", Text),
    Column("channel", Text),
    Column("edited", Text),
    Column("run", Text),
)
Index("approvals_by_session", approvals.c.session, approvals.c.requested)

preferences = Table(
    "preferences",
    TABLES,
    Column("user", Text, primary_key=True),
    Column("data", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("updated", Double, nullable=False),
)

tasks = Table(
    "tasks",
    TABLES,
    Column("session", Text, primary_key=True),
    Column("user", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("title", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("calls", Text, nullable=False),
    Column("updated", Double, nullable=False),
)

results = Table(
    "results",
    TABLES,
    Column("handle", Text, primary_key=True),
    Column("session", Text),
    Column("user", Text),
    Column("mime_type", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
)
Index("results_by_expiry", results.c.expires)

notes = Table(
    "notes",
    TABLES,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("user", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("updated", Double, nullable=False),
)
Index("notes_by_user", notes.c.user, notes.c.updated)
note_tags = Table(
    "note_tags",
    TABLES,
    Column("note", Text, primary_key=True),
    Column("tag", Text, primary_key=True),
)
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


reminders = Table(
    "reminders",
    TABLES,
    Column("id", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("start", Double, nullable=False),
    Column("rrule", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("due", Double),
    Column("untold", Double),
    Column("updated", Double, nullable=False),
)
Index("reminders_by_due", reminders.c.due)
Index("reminders_by_user", reminders.c.user)

memories = Table(
    "memories",
    TABLES,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("user", Text, nullable=False),
    Column("space", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    sqlite_autoincrement=True,  # a number is never reused: processes remember the last
)
Index("memories_by_user", memories.c.user, memories.c.space, memories.c.number)
Index("memories_by_digest", memories.c.user, memories.c.space, memories.c.digest, unique=True)

conversations = Table(
    "conversations",
    TABLES,
    Column("id", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("ended", Double),
)
Index("conversations_by_user", conversations.c.user, conversations.c.started)

usage = Table(
    "usage",
    TABLES,
    Column("id", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("model", Text, nullable=False),
    Column("tokens", Text, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", Double),
)
Index("usage_by_session", usage.c.session, usage.c.at)
Index("usage_by_user", usage.c.user, usage.c.at)

cached_results = Table(
    "cached_results",
    TABLES,
    Column("key", Text, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("content", Text, nullable=False),
)
Index(
    "cached_results_by_tool",
    cached_results.c.tool,
    cached_results.c.created,
    cached_results.c.size,
)
Index("cached_results_by_expiry", cached_results.c.expires)
cache_generations = Table(
    "cache_generations",
    TABLES,
    Column("tool", Text, primary_key=True),
    Column("generation", Integer, nullable=False),
)
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


def _add_notes(connection: Connection) -> None:
    """Upgrade to version 5: notes of users."""
    TABLES.create_all(connection, [notes, note_tags])


def _add_reminders(connection: Connection) -> None:
    """Upgrade to version 6: reminders of users."""
    TABLES.create_all(connection, [reminders])


def _add_memories(connection: Connection) -> None:
    """Upgrade to version 7: memories of users."""
    TABLES.create_all(connection, [memories])


def _add_conversations(connection: Connection) -> None:
    """Upgrade to version 8: the conversations of users."""
    TABLES.create_all(connection, [conversations])


def _add_cached_results(connection: Connection) -> None:
    """Upgrade to version 9: results of reads that processes share."""
    TABLES.create_all(connection, [cached_results, cache_generations])


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


def _add_usage(connection: Connection) -> None:
    """Upgrade to version 12: the tokens of live sessions."""
    TABLES.create_all(connection, [usage])


UPGRADES: Sequence[Upgrade] = (
    _add_approval_details,
    _index_call_ids,
    _add_run_locks,
    _add_notes,
    _add_reminders,
    _add_memories,
    _add_conversations,
    _add_cached_results,
    _keep_tasks_of_users_apart,
    _keep_results_of_users_apart,
    _add_usage,
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
