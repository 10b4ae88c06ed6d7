"""Which processes live is known at once, also on a server and under another host name."""

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import pytest

from leonidas_tools.store import Store
from leonidas_tools.store import runs as store_runs
from tests.databases import as_owner, free_port

pytestmark = pytest.mark.slow

CHILD = Path(__file__).parent / "child.py"
LOCKS = "pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"


where_is_server = pytest.mark.parametrize("where", ["postgresql"], indirect=True)


@contextmanager
def holding(where):
    """A process whose event loop a call holds until a line comes; in the end it is killed."""
    command = [sys.executable, str(CHILD), "holding", where, "1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout.readline() == "holds\n"
        try:
            yield child
        finally:
            child.kill()


@asynccontextmanager
async def administered(where):
    connection = await asyncpg.connect(where)
    try:
        yield connection
    finally:
        await connection.close()


async def administer(where, *statements):
    async with administered(where) as connection:
        return [await connection.fetch(statement) for statement in statements]


async def move_to_another_host(where):
    await administer(where, "UPDATE runs SET host = 'another-container'")


async def find_interrupted(where):
    async with Store(where) as store:
        return [call.tool for call in await store.interrupted()]


async def let_in(where, name):
    """Let another user use the tables of a store, and return the address for it."""
    async with Store(where) as store:
        assert await store.flush()
    user = f"{name}_{uuid.uuid4().hex[:8]}"
    await administer(
        where,
        f"CREATE ROLE {user} LOGIN",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {user}",
    )
    return where.replace("//ana@", f"//{user}@")


async def until_locks(where, count):
    async with administered(where) as connection, asyncio.timeout(20):
        while await connection.fetchval(f"SELECT count(*) FROM {LOCKS}") != count:
            await asyncio.sleep(0.01)


async def until_noted(where, lock):
    """Until the row of the run names another lock than this."""
    async with administered(where) as connection, asyncio.timeout(20):
        while await connection.fetchval("SELECT lock FROM runs") == lock:
            await asyncio.sleep(0.01)


@where_is_server
async def test_calls_of_a_process_that_was_killed_on_another_host_are_listed_at_once(where):
    with holding(where) as child:
        await move_to_another_host(where)
        child.send_signal(signal.SIGKILL)
        child.wait()
        async with asyncio.timeout(store_runs._SILENT_SECONDS / 2):
            assert await find_interrupted(where) == ["wait_for_line"]


@where_is_server
async def test_a_process_whose_loop_is_held_for_long_lives(where):
    with holding(where) as child:
        await administer(where, "UPDATE runs SET seen = 0, host = 'another-container'")
        assert await find_interrupted(where) == []
        child.stdin.write("go on\n")
        child.stdin.flush()
        assert child.stdout.readline() == "ended\n"
        ((row,),) = await administer(where, "SELECT status FROM executions")
        assert row["status"] == "ok"


@where_is_server
async def test_a_lock_that_the_server_ends_is_taken_again_while_the_loop_is_held(where):
    with holding(where) as child:
        await move_to_another_host(where)
        _, ((before,),) = await administer(
            where, f"SELECT pg_terminate_backend(pid) FROM {LOCKS}", "SELECT lock FROM runs"
        )
        assert await find_interrupted(where) == []
        await until_noted(where, before)
        await administer(where, "UPDATE runs SET seen = 0")
        assert await find_interrupted(where) == []
        child.kill()
        child.wait()
        async with asyncio.timeout(store_runs._SILENT_SECONDS / 2):
            assert await find_interrupted(where) == ["wait_for_line"]


@where_is_server
async def test_while_all_connections_of_a_process_are_ended_its_calls_are_not_interrupted(where):
    with holding(where):
        await move_to_another_host(where)
        for _ in range(3):
            await administer(
                where,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
                "pg_backend_pid() AND datname = current_database()",
            )
            assert await find_interrupted(where) == []


@where_is_server
async def test_two_openings_whose_locks_collide_are_distinguished(where, monkeypatch, tell):
    with holding(where) as child:
        (((run,),),) = await administer(where, "SELECT id FROM runs")
        key = store_runs._key(run)
        monkeypatch.setattr(store_runs, "_key", lambda _: key)
        async with Store(where) as living:
            tell(living).start("search")
            assert await living.flush()
            await move_to_another_host(where)
            child.kill()
            child.wait()
            await until_locks(where, 1)
            assert await find_interrupted(where) == ["wait_for_line"]


@where_is_server
async def test_an_opening_that_ends_gives_its_lock_and_its_thread_back(where, tell):
    assert "store-lock" not in [thread.name for thread in threading.enumerate()]
    async with Store(where) as store:
        tell(store).run()
        assert await store.flush()
        await until_locks(where, 1)
    assert "store-lock" not in [thread.name for thread in threading.enumerate()]
    await until_locks(where, 0)


@where_is_server
@pytest.mark.parametrize(
    "revoked",
    [
        "SELECT ON pg_locks",
        "EXECUTE ON FUNCTION pg_try_advisory_lock_shared(bigint)",
        "EXECUTE ON FUNCTION pg_postmaster_start_time()",
    ],
)
async def test_with_fewer_rights_the_heartbeat_decides(where, revoked, tell):
    limited = await let_in(where, "bea")
    await administer(where, f"REVOKE {revoked} FROM PUBLIC")
    async with Store(limited) as living:
        tell(living).start("search")
        assert await living.flush()
        await move_to_another_host(where)
        assert await find_interrupted(limited) == []
        await administer(where, "UPDATE runs SET seen = 0")
        assert await find_interrupted(limited) == ["search"]
        assert living.status.ok


@where_is_server
async def test_a_process_that_cannot_take_its_lock_again_lives_by_its_heartbeat(where, tell):
    limited = await let_in(where, "cleo")
    user = limited.partition("//")[2].partition("@")[0]
    async with Store(limited) as living:
        tell(living).start("search")
        assert await living.flush()
        await move_to_another_host(where)
        await administer(
            where, f"ALTER ROLE {user} NOLOGIN", f"SELECT pg_terminate_backend(pid) FROM {LOCKS}"
        )
        assert await find_interrupted(where) == []
        ((row,),) = await administer(where, "SELECT lock FROM runs")
        assert row["lock"] is None
        await administer(where, f"ALTER ROLE {user} LOGIN")
        await until_noted(where, None)
        await until_locks(where, 1)


@where_is_server
async def test_locks_of_a_server_before_it_restarted_say_nothing(where):
    with holding(where) as child:
        await administer(
            where, "UPDATE runs SET host = 'another-container', lock = '1.0/' || process"
        )
        child.kill()
        child.wait()
        await until_locks(where, 0)
        assert await find_interrupted(where) == []
        await administer(where, "UPDATE runs SET seen = 0")
        assert await find_interrupted(where) == ["wait_for_line"]


@contextmanager
def pooling(where, mode, folder):
    """A pooler before a server; the address by which it is reached."""
    if shutil.which("pgbouncer") is None:
        pytest.skip("pgbouncer is not installed")
    server, name = where.rsplit("/", 1)
    port, settings = free_port(), folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n{name} = host=127.0.0.1 port={server.rsplit(':', 1)[1]} user=ana\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
        f"pool_mode = {mode}\nunix_socket_dir =\n"
        "ignore_startup_parameters = extra_float_digits\n"
    )
    folder.chmod(0o755)
    command = as_owner("pgbouncer", str(settings))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as pooler:
        try:
            assert any("process up" in line for line in pooler.stderr)
            yield f"postgresql://ana@127.0.0.1:{port}/{name}"
        finally:
            pooler.kill()


@where_is_server
@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_behind_a_pooler_the_heartbeat_decides(where, mode):
    with tempfile.TemporaryDirectory() as folder, pooling(where, mode, Path(folder)) as pooled:
        with holding(pooled) as child:
            await move_to_another_host(where)
            await until_locks(where, 0)
            child.kill()
            child.wait()
            assert await find_interrupted(pooled) == []
            assert await find_interrupted(where) == []
        await administer(where, "UPDATE runs SET seen = 0")
        assert await find_interrupted(pooled) == ["wait_for_line"]
