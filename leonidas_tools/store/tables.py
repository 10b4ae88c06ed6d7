"""The tables, as they are in the newest version."""

from __future__ import annotations

from sqlalchemy import (
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
)

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
"""Who writes: one row a process and opening, so that calls of the dead can be told."""

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
    Column("id", Text, primary_key=True),
    Column("title", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("calls", Text, nullable=False),
    Column("updated", Double, nullable=False),
    Column("user", Text),
)

results = Table(
    "results",
    TABLES,
    Column("handle", Text, primary_key=True),
    Column("session", Text),
    Column("mime_type", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
)
Index("results_by_expiry", results.c.expires)
