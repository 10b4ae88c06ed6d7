"""Real databases: files of SQLite, and a PostgreSQL server where one is installed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from leonidas_tools.calls.call import ResultStatus, ToolCall, ToolResult, ToolSession
from leonidas_tools.calls.events import EventKind, ToolEvent
from leonidas_tools.calls.invocation import ending_kind
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import Store
from leonidas_tools.tools.tool import Tool


def _postgres_binaries() -> Path | None:
    found = shutil.which("pg_ctl")
    if found is not None:
        return Path(found).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    return installed[-1].parent if installed else None


def as_owner(*command: str) -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return list(command)
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The address of a PostgreSQL server on loopback, without a database's name."""
    binaries = _postgres_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path("/tmp") / f"leonidas-postgres-{uuid.uuid4().hex[:8]}"  # short, for its socket
    folder.mkdir()
    port = free_port()
    try:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        data = str(folder / "data")
        initdb = as_owner(str(binaries / "initdb"), "-D", data, "-U", "ana", "-A", "trust", "-N")
        made = subprocess.run(initdb, capture_output=True, text=True, cwd=folder, check=False)
        if made.returncode:
            pytest.skip(f"PostgreSQL cannot be set up here: {made.stderr.strip()[-200:]}")
        options = f"-p {port} -k {folder} -h 127.0.0.1 -F"
        control = as_owner(str(binaries / "pg_ctl"), "-D", data, "-w")
        subprocess.run(
            [*control, "-o", options, "-l", str(folder / "log"), "start"],
            check=True,
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield f"postgresql://ana@127.0.0.1:{port}"
        finally:
            subprocess.run(
                [*control, "-m", "immediate", "stop"],
                check=True,
                cwd=folder,
                stdout=subprocess.DEVNULL,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "kept" / "leonidas.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, file):
    """A place for a store of each kind."""
    if request.param == "sqlite":
        return str(file)
    server = request.getfixturevalue("postgres")
    name = f"kept_{uuid.uuid4().hex[:8]}"

    async def create() -> None:
        import asyncpg

        connection = await asyncpg.connect(f"{server}/postgres")
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(create())
    return f"{server}/{name}"


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
