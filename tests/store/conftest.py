"""Real databases: files of SQLite, and a PostgreSQL server where one is installed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time

import pytest

from leonidas_tools.calls.call import ResultStatus, ToolCall, ToolResult, ToolSession
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.calls.invocation import ending_kind
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import Store
from leonidas_tools.store.schema import approvals
from leonidas_tools.tools.tool import Tool


@pytest.fixture
def settings(where):
    """Settings of a store of each kind: `settings(durable=True)`."""

    def made(**more):
        return StoreSettings(url=where, **more)

    return made


@pytest.fixture
async def store(where):
    async with Store(where) as opened:
        yield opened


class Told:
    """Tells a store of the calls of one session, a second apart."""

    def __init__(self, store, session="kitchen", now=1_700_000_000.0):
        self.store = store
        self.session = ToolSession(session)
        self.now = now

    def call(self, name="search", effect="once", **arguments):
        number = next(self.session.numbers)
        tool = Tool(lambda: None, name=name, effect=effect)
        return ToolCall(
            name=name, arguments=arguments, id=f"id-{number}", number=number,
            session=self.session, tool=tool,
        )  # fmt: skip

    def tell(self, kind, call, **more):
        self.now += 1
        self.store.sink(ToolEvent(kind=kind, call=call, at=self.now, **more))

    def start(self, name="search", effect="once", **arguments):
        call = self.call(name, effect, **arguments)
        self.tell(EventKind.START, call)
        return call

    def end(self, call, value=None, status="ok", **more):
        result = ToolResult(status=ResultStatus(status), result=value, **more)
        self.tell(ending_kind(result), call, result=result, seconds=1.0)

    def run(self, name="search", value=None, status="ok", **arguments):
        call = self.start(name, **arguments)
        self.end(call, value, status)
        return call


@pytest.fixture
def told(store):
    return Told(store)


@pytest.fixture
def tell():
    """Makes tellers: `tell(store, "another session")`."""
    return Told


async def write_now(store, write):
    """Writes at once what a store would write in the background."""
    async with store._database.writing() as connection:
        await write(connection)


async def insert_question(store, call, **columns):
    """Inserts a question about a call, as any process may have asked it; returns its id."""
    id_ = secrets.token_hex(8)
    row = {
        "id": id_, "session": call.session.id, "user": "local", "trace_id": call.trace_id,
        "tool": call.name, "arguments": json.dumps(call.arguments), "requested": time.time(),
    }  # fmt: skip
    insert = approvals.insert().values(row | columns)
    await write_now(store, lambda connection: connection.execute(insert))
    return id_


@contextlib.contextmanager
def locked(path):
    """Holds a file of SQLite as another process would that writes for long."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("COMMIT")


async def until(condition, seconds=20.0):
    """Waits, turn by turn of the loop, until something is so that tells nobody."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def now():
    return time.time()
