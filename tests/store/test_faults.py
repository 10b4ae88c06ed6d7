"""Whatever becomes of the database or the process, calls go on and the store says what is."""

import asyncio
import contextlib
import logging
import sqlite3
import subprocess
from pathlib import Path

import asyncpg
import pytest

from leonidas_tools import AdvancedToolProcessor, Approvals, ToolSession, tool
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.errors import StoreError
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import Store
from leonidas_tools.store.address import database_url
from leonidas_tools.store.database import Database
from leonidas_tools.store.outbox import Outbox
from leonidas_tools.store.schema import executions
from leonidas_tools.toolboxes import tasks
from tests.mcp.forking import fork_command
from tests.tasks import other_tasks

from .conftest import locked, until

CHILD = Path(__file__).parent / "child.py"
pytestmark = pytest.mark.usefixtures("forking")


def start(mode, where, count):
    return subprocess.Popen(
        fork_command(CHILD, mode, where, count), stdout=subprocess.PIPE, text=True
    )


def numbers(lines, word):
    return {int(line.split()[1]) for line in lines if line.startswith(word)}


@tool(effect="read")
async def look(number: int) -> int:
    """Looks."""
    return number


@contextlib.asynccontextmanager
async def tools_with(store):
    tools = AdvancedToolProcessor(tools=[look], policies=store.policies)
    tools.monitor.subscribe(store.sink)
    async with tools:
        yield tools


async def looks(tools, count):
    results = [await tools.execute("look", {"number": n}) for n in range(count)]
    return [result.result for result in results]


async def test_after_a_kill_every_call_is_listed_that_may_have_happened(where):
    with start("durable", where, 1000) as child:
        lines = []
        for line in child.stdout:
            lines.append(line)
            if len(lines) == 400:
                child.kill()
                break
        lines += child.stdout.readlines()
    started, ended = numbers(lines, "started"), numbers(lines, "ended")
    assert 100 < len(started) < 1000
    async with Store(where) as store:
        interrupted = await store.interrupted()
        kept = await store.executions(tool="buy", limit=None)
        listed = {call.arguments["number"] for call in interrupted}
        finished = {call.arguments["number"] for call in kept if call.status == "ok"}
        assert started <= listed | finished
        assert started - ended <= listed
        assert finished <= ended
        assert all(call.may_have_happened for call in interrupted)
        await store.acknowledge(interrupted)
        assert await store.interrupted() == []
        assert len(await store.interrupted(acknowledged=True)) == len(interrupted)
    async with Store(where) as again:
        assert await again.interrupted() == []


async def test_after_a_kill_every_open_question_is_listed_and_nothing_runs_by_itself(where):
    with start("asking", where, 200) as child:
        lines = []
        for line in child.stdout:
            lines.append(line)
            if len(lines) == 60:
                child.kill()
                break
        lines += child.stdout.readlines()
    asked, denied = numbers(lines, "asked"), numbers(lines, "denied")
    assert asked
    assert denied
    settings = {"store": {"enabled": True, "url": where, "durable": True}}
    ran = []

    @tool(effect="once", requires_approval=True)
    async def pay(number: int) -> int:
        ran.append(number)
        return number

    async with AdvancedToolProcessor([pay], settings) as tools:
        found = await tools.store.approvals.find(user="ana", limit=None)
        became = {each.arguments["number"]: each.decision for each in found}
        assert {number for number in asked if became.get(number) != "unanswered"} == set()
        assert {number for number in denied if became.get(number) != "denied"} == set()
        assert set(became.values()) == {"unanswered", "denied"}
        assert await tools.store.approvals.pending() == []
        # The same session goes on: its question is gone, and is asked anew before anything runs.
        number = min(asked)
        session = ToolSession(f"session-{number}", user="ana")
        assert session.get(Approvals).pending() == []
        result = await tools.execute("pay", {"number": number}, session=session)
        assert result.status == "pending_approval"
        listed = await tools.store.interrupted()
        assert numbers(lines, "started") - numbers(lines, "ended") <= {
            call.arguments["number"] for call in listed if call.tool == "buy"
        }
        await tools.store.flush()
    assert ran == []
    assert numbers(lines, "paid") == set()


async def test_calls_of_a_process_that_lives_are_not_interrupted(where, tell):
    async with Store(where) as one, Store(where) as other:
        call = tell(one).start("book")
        assert await one.flush()
        assert await other.interrupted() == []
        assert await one.interrupted() == []
        tell(one).end(call)
    async with Store(where) as third:
        tell(third, "hall").start("book", effect="read")
    async with Store(where) as fourth:
        interrupted = await fourth.interrupted()
        assert [(call.session, call.may_have_happened) for call in interrupted] == [("hall", False)]


async def test_two_processes_write_to_the_same_file(file):
    children = [start("plain", file, 400) for _ in range(2)]
    for child in children:
        with child:
            assert child.stdout.read() == "good 400\n"
        assert child.returncode == 0
    async with Store(file) as store:
        assert {session.calls for session in await store.sessions()} == {50}
        kept = await store.executions(limit=None)
        assert len(kept) == 800
        assert {call.status for call in kept} == {"ok"}


@pytest.mark.slow
async def test_a_new_file_that_another_process_is_making_is_opened_once_that_is_done(file):
    file.parent.mkdir()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("CREATE TABLE made (at)")
    other.execute("BEGIN IMMEDIATE")  # not in WAL yet: the change to WAL is refused at once
    database = Database(database_url(str(file)))
    opening = asyncio.create_task(database.open())
    await asyncio.wait({opening}, timeout=0.2)
    assert not opening.done()
    other.execute("COMMIT")
    async with asyncio.timeout(5):
        await opening
    await database.close()
    other.close()


async def test_a_file_that_another_process_holds_stops_no_call(file, caplog):
    settings = StoreSettings(url=str(file), max_waiting=50)
    async with Store(settings) as store, tools_with(store) as tools:
        await looks(tools, 3)
        assert await store.flush()
        with locked(file):
            assert await looks(tools, 100) == list(range(100))
            await until(lambda: store.status.error)
            assert "locked" in store.status.error
            assert not store.status.ok
            assert store.status.dropped == 50
            with pytest.raises(StoreError, match="locked"):
                await store.preferences.write("ana", {})
        assert await store.flush(timeout_seconds=20)
        await until(lambda: store.status.ok)
        assert len(await store.executions(limit=None)) == 53
    said = [record.message for record in caplog.records if record.name.startswith("leonidas_tools")]
    assert (
        sum("Some calls are not stored: the store is too slow for them" in line for line in said)
        == 1
    )
    assert sum("locked; calls continue" in line for line in said) == 1
    assert "The store is writable again" in said


@pytest.mark.parametrize("rubbish", [b"no database\n" * 500, b"SQLite format 3\0" + b"\xff" * 8000])
async def test_a_file_that_is_none_is_moved_aside(file, rubbish, caplog):
    file.parent.mkdir()
    file.write_bytes(rubbish)
    async with Store(file) as store, tools_with(store) as tools:
        assert await looks(tools, 3) == [0, 1, 2]
        assert len(await store.executions()) == 3
        aside = file.parent / store.status.set_aside
    assert aside.read_bytes() == rubbish
    assert aside.parent == file.parent
    assert f"cannot be read: moved to {aside}" in caplog.text


async def test_a_file_that_breaks_while_it_is_open_is_moved_aside(file):
    async with Store(file) as store, tools_with(store) as tools:
        await looks(tools, 200)
        assert await store.flush()
        with contextlib.closing(sqlite3.connect(file)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        await store._database.close()
        size = file.stat().st_size
        with file.open("r+b") as broken:
            broken.seek(4096)
            broken.write(b"\xff" * (size - 4096))
        assert await looks(tools, 200) == list(range(200))
        assert await store.flush(timeout_seconds=20)
        assert store.status.set_aside is not None
        assert len(await store.executions(limit=None)) >= 200
        assert store.status.ok
        assert await store.interrupted() == []


def test_a_full_disk_stops_no_call(file):
    with start("full", file, 3000) as child:
        said = child.stdout.read().splitlines()
    assert said[0] == "good 3000"
    assert said[1].startswith("error The store ")
    assert child.returncode == 0
    with contextlib.closing(sqlite3.connect(file)) as kept:
        assert kept.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert kept.execute("SELECT count(*) FROM executions").fetchone()[0] > 0


def test_what_cannot_be_written_down_does_not_run_where_that_is_asked_for(file):
    with start("refusing", file, 3000) as child:
        said = child.stdout.read().splitlines()
    assert child.returncode == 0
    (refused,) = numbers(said, "refused")
    ran = [line for line in said if line.startswith("started")]
    assert said.index("room") == said.index(f"refused {refused}") + 1
    assert ran == [f"started {number}" for number in (*range(refused), 3000)]
    with contextlib.closing(sqlite3.connect(file)) as kept:
        ended = kept.execute("SELECT count(*) FROM executions WHERE status = 'ok'").fetchone()[0]
    assert ended == refused + 1


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own that is soon full."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    try:
        made = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("nothing can be mounted here")
    if made.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("unwritable", ["run", "refuse"])
async def test_a_full_disk_has_one_answer(small_disk, unwritable):
    ran = []

    @tool(effect="once")
    async def book(number: int) -> int:
        ran.append(number)
        return number

    store = {"enabled": True, "url": str(small_disk / "kept.db")}
    store |= {"durable": True, "unwritable": unwritable}
    async with AdvancedToolProcessor([book, look], {"store": store}) as tools:
        first = await tools.execute("book", {"number": 0}, session=ToolSession())
        assert first.ok
        await tools.store.flush(timeout_seconds=20)
        filled = small_disk / "filled"
        with contextlib.suppress(OSError), filled.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        session = ToolSession()
        results = []
        async with asyncio.timeout(60):
            while not results or results[-1].ok:
                await tools.execute("look", {"number": len(results)}, session=ToolSession())
                number = {"number": len(results) + 1}
                results.append(await tools.execute("book", number, session=session))
                if unwritable == "run" and tools.store.status.not_durable > 2:
                    break
        assert "full" in tools.store.status.error
        if unwritable == "run":
            assert len(ran) == 1 + len(results)
        else:
            assert results[-1].to_response() == {
                "status": "unavailable",
                "message": "Nothing was done: 'book' may only run once the call is recorded, "
                "and the store cannot be written to. Tell the user.",
                "retryable": True,
                "retry_hint": "Try again later if the user still wants it.",
                "reason_code": "not_recorded",
            }
            assert len(ran) == len(results)  # the first one ran, and the last one did not
        assert (await tools.execute("look", {"number": 1}, session=ToolSession())).ok
        filled.unlink()
        async with asyncio.timeout(60):
            while not (await tools.execute("book", {"number": -1}, session=ToolSession())).ok:
                await asyncio.sleep(0.05)
        assert await tools.store.flush(timeout_seconds=20)
        assert tools.store.status.ok


async def test_a_file_that_is_held_has_a_call_refused_that_must_be_written_down(file):
    ran = []

    @tool(effect="once")
    async def book() -> str:
        ran.append(1)
        return "booked"

    store = {"enabled": True, "url": str(file), "durable": True, "unwritable": "refuse"}
    async with AdvancedToolProcessor([book, look], {"store": store}) as tools:
        assert (await tools.execute("book", session=ToolSession())).ok
        await tools.store.flush(timeout_seconds=20)
        with locked(file):
            refused = await tools.execute("book", session=ToolSession("s"))
            assert (refused.reason_code, ran) == ("not_recorded", [1])
            assert (await tools.execute("look", {"number": 1}, session=ToolSession())).ok
        assert await tools.store.flush(timeout_seconds=20)
        assert (await tools.execute("book", session=ToolSession("s"))).ok
        kept = await tools.store.executions(session="s", newest_first=False)
        assert [(call.status, call.reason) for call in kept] == [
            ("unavailable", "not_recorded"),
            ("ok", None),
        ]


async def test_a_place_that_cannot_be_written_to_stops_no_call(tmp_path, caplog):
    (tmp_path / "a file").write_text("")
    async with Store(tmp_path / "a file" / "kept.db") as store, tools_with(store) as tools:
        assert not store.status.ok
        assert await looks(tools, 3) == [0, 1, 2]
        assert not await store.flush(timeout_seconds=0.1)
        with pytest.raises(StoreError, match=r"cannot be used: .*a file"):
            await store.executions()
        (tmp_path / "a file").unlink()
        assert await store.flush(timeout_seconds=20)
        assert len(await store.executions()) == 3
    assert "calls continue, and are stored once it is available" in caplog.text


async def test_a_folder_that_is_read_only_is_said(tmp_path, permissions_bind):
    tmp_path.chmod(0o500)
    async with Store(tmp_path / "kept.db") as store:
        assert "Permission denied" in store.status.error
    tmp_path.chmod(0o700)


async def test_a_server_that_is_not_there_stops_no_call():
    where = "postgresql://ana:hunter2@127.0.0.1:1/none"
    async with Store(where) as store, tools_with(store) as tools:
        assert await looks(tools, 3) == [0, 1, 2]
        assert "hunter2" not in store.status.error
        with pytest.raises(StoreError) as caught:
            await store.sessions()
        assert "hunter2" not in str(caught.value)


@pytest.mark.slow
async def test_a_server_that_goes_and_comes_back_has_all_calls(postgres, tell):
    where = f"{postgres}/postgres"
    async with Store(where) as store:
        told = tell(store)
        told.run()
        assert await store.flush()
        killer = await asyncpg.connect(where)
        await killer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
        await killer.close()
        told.run()
        assert await store.flush(timeout_seconds=20)
        assert len(await store.executions()) == 2


async def test_a_row_that_the_database_refuses_takes_no_other_along(where, store, told):
    for _ in range(3):
        told.run()
    assert await store.flush()
    database = Database(database_url(where))
    outbox = Outbox(database, run="r", max_entries=10, max_bytes=100_000)
    async with database.reading() as connection:
        rows = [dict(row) for row in (await connection.execute(executions.select())).mappings()]
    rows[1]["started"] = object()
    for row in rows:
        outbox.calls.add({**row, "id": f"copy of {row['id']}", "arguments": "{}", "result": None})
    outbox.start()
    assert await outbox.flush(10.0)
    await outbox.close(10.0)
    await database.close()
    kept = await store.executions(newest_first=False)
    assert [call.trace_id for call in kept] == [
        "kitchen-1",
        "kitchen-1",
        "kitchen-2",
        "kitchen-3",
        "kitchen-3",
    ]
    assert (outbox.calls.refused, outbox.calls.written, outbox.error) == (1, 2, None)


async def test_a_list_of_tasks_that_a_database_refuses_takes_no_other_along(where):
    settings = {"store": {"enabled": True, "url": where}}
    async with AdvancedToolProcessor(tasks.TOOLS, settings) as tools:
        for name in ("kit\ud800chen", "hall"):
            session = ToolSession(name)
            assert (await tools.execute("write_tasks", {"tasks": ["tea"]}, session=session)).ok
        assert await tools.store.flush(timeout_seconds=60)
        kept = await tools.store.tasks.read("hall")
    assert [task.title for task in kept] == ["tea"]


async def test_a_session_whose_name_a_database_refuses_is_not_known_and_says_so(where, caplog):
    settings = {"store": {"enabled": True, "url": where}}
    async with AdvancedToolProcessor(tasks.TOOLS, settings) as tools:
        session = ToolSession("kit\ud800chen", user="a\ud800na")
        assert (await tools.execute("write_tasks", {"tasks": ["tea"]}, session=session)).ok
        while "cannot be read" not in caplog.text:
            await asyncio.sleep(0)
        assert not session.get(SessionPolicy).preferred.is_known
    assert "Traceback" not in caplog.text
    assert {record.levelname for record in caplog.records} == {"WARNING"}


async def test_nothing_is_logged_above_debug_in_ordinary_use(store, told, caplog):
    caplog.set_level(logging.INFO)
    for _ in range(200):
        told.run()
    await store.flush()
    await store.prune()
    assert caplog.records == []


async def test_closing_twice_as_many_calls_as_can_be_taken_leaves_no_task(file, tell):
    before = other_tasks()
    async with Store(StoreSettings(url=str(file), max_waiting=100)) as store:
        for _ in range(200):
            tell(store).run()
    assert other_tasks() == before
    assert store.status.dropped == 100
    assert store.status.waiting == 0


@pytest.mark.slow
async def test_a_database_that_is_not_there_is_said(postgres):
    async with Store(f"{postgres}/nowhere") as store:
        assert 'database "nowhere" does not exist' in store.status.error
        store.sink(object())
        with pytest.raises(StoreError, match="does not exist"):
            await store.sessions()


async def test_what_was_to_be_written_is_not_said(store):
    with pytest.raises(StoreError) as caught:
        await store.approvals.find(session=object())
    assert "object" not in str(caught.value)
    assert str(caught.value).startswith("The store ")
