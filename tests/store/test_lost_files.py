"""A crash is known at the next start, and a file that is lost while it is open is noticed."""

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolError, ToolSession, tool
from leonidas_tools.store import Store
from tests.mcp.forking import fork_command

pytestmark = pytest.mark.usefixtures("forking")
CHILD = Path(__file__).parent / "child.py"


def killed(where, count=400, after=5):
    """Kills a process with calls under way; returns the numbers that had begun."""
    command = fork_command(CHILD, "durable", str(where), count)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        lines = [child.stdout.readline() for _ in range(after)]
        os.kill(child.pid, signal.SIGKILL)
        lines += child.stdout.read().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("started")]


def rewrite_runs(file, host, process):
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE runs SET host = ?, process = ?", (host, process))


@pytest.mark.parametrize("host", [None, "another-container"])
@pytest.mark.parametrize("process", [None, 1, os.getppid(), "own"])
async def test_after_a_crash_calls_are_interrupted_on_any_host_and_process(file, host, process):
    killed(file)
    own = os.getpid() if process == "own" else process
    rewrite_runs(file, host or os.uname().nodename, own or 2**22 + 1)
    async with Store(file) as store:
        interrupted = await store.interrupted()
    assert interrupted
    assert all(call.may_have_happened for call in interrupted)


async def test_after_a_kill_at_any_moment_each_effect_is_recorded_and_none_happens_twice(file):
    chosen = random.Random(7)
    for round_ in range(4):
        begun = killed(file, after=chosen.randrange(1, 60))
        assert len(begun) == len(set(begun)), round_
        async with Store(file) as store:
            told = await store.interrupted()
            kept = await store.executions(tool="buy", limit=None)
            await store.acknowledge(told)
        known = {c.arguments["number"] for c in kept if c.status in ("ok", "interrupted")}
        assert set(begun) <= known
    assert not list(file.parent.glob("*.run-*")) or await no_lock_is_held(file)


async def no_lock_is_held(file):
    async with Store(file) as store:
        return await store.interrupted() == []


def remove(file):
    file.unlink()


def remove_all(file):
    for beside in file.parent.glob(f"{file.name}*"):
        beside.unlink()


def replace(file):
    other = file.with_name("other.db")
    shutil.copy(file, other)
    other.replace(file)


def rename(file):
    file.rename(file.with_name("gone.db"))


def remove_folder(file):
    shutil.rmtree(file.parent)


LOSSES = [remove, remove_all, replace, rename, remove_folder]


def delete_rows(file):
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("DELETE FROM executions")


@pytest.mark.parametrize("lose", [*LOSSES[:2], *LOSSES[3:], delete_rows])
async def test_a_lost_file_lets_no_call_run_twice(file, lose):
    ran = []

    @tool(effect="once")
    async def book(number: int) -> int:
        """Books."""
        if number < 0:
            raise ToolError("No.", status="denied")
        ran.append(number)
        return number

    store = {"enabled": True, "url": str(file), "durable": True, "unwritable": "refuse"}
    async with AdvancedToolProcessor([book], {"store": store}) as tools:

        async def execute(number, call_id, session):
            call = ("book", {"number": number})
            return await tools.execute(*call, session=session, call_id=call_id)

        session = ToolSession("s", user="ana")
        assert (await execute(1, "c", session)).ok
        assert (await execute(-1, "d", session)).status == "denied"
        assert await tools.store.flush(timeout_seconds=20)
        lose(file)
        async with asyncio.timeout(30):
            while not (await execute(2, None, session)).ok:
                assert not (await execute(1, "c", session)).ok
                await asyncio.sleep(0.05)
        for again in (session, ToolSession("s", user="ana")):
            repeated = await execute(1, "c", again)
            assert (repeated.status, repeated.reason_code) == ("unknown_outcome", "repeated_call")
            assert (await execute(-1, "d", again)).status == "denied"
        assert (await execute(1, "c", ToolSession("s", user="bo"))).ok
        assert (await execute(3, "e", session)).ok
    assert ran == [1, 2, 1, 3]


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_file_that_is_lost_while_it_is_open_has_a_once_call_refused(file, lose, caplog):
    ran = []

    @tool(effect="once")
    async def book(number: int) -> int:
        """Books."""
        ran.append(number)
        return number

    store = {"enabled": True, "url": str(file), "durable": True, "unwritable": "refuse"}
    async with AdvancedToolProcessor([book], {"store": store}) as tools:
        session = ToolSession("s")
        assert (await tools.execute("book", {"number": 1}, session=session)).ok
        assert await tools.store.flush(timeout_seconds=20)
        lose(file)
        refused = await tools.execute("book", {"number": 2}, session=session, call_id="c")
        assert (refused.reason_code, ran) == ("not_recorded", [1])
        assert "while it was open" in tools.store.status.lost
        report = tools.monitor.health()
        assert report["status"] == "degraded"
        assert any("while it was open" in reason for reason in report["reasons"])
        async with asyncio.timeout(30):
            while not (await tools.execute("book", {"number": 3}, session=session)).ok:
                await asyncio.sleep(0.05)
        assert await tools.store.flush(timeout_seconds=20)
        kept = await tools.store.executions(status="ok")
        assert 3 in [call.arguments["number"] for call in kept]
    assert ran == [1, 3]
    assert "are lost to this process" in caplog.text
