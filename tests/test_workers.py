"""Sync tools run in a pool of threads, CPU-bound ones in processes that can be killed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from leonidas_tools import AdvancedToolProcessor, Tool, ToolContext
from leonidas_tools.workers import Workers
from tests.faults.play import tool_threads
from tests.policies import slow_sums
from tests.policies.runs import Told, begin, ended, tools_of

FAILED = {"status": "failed", "retryable": False}


async def until(met: Any) -> None:
    """Waits for what happens in another thread or process, which tells no event here."""
    async with asyncio.timeout(20):
        while not met():
            await asyncio.sleep(0.002)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


# --- threads ---------------------------------------------------------------------------------


async def test_a_sync_tool_leaves_the_loop_free() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        inside.set()
        go_on.wait(20)
        return threading.current_thread().name

    tools = tools_of(slow)
    async with tools:
        call = begin(tools, "slow")
        await until(inside.is_set)
        go_on.set()
        assert await ended(call) == ["leonidas-tool"]


async def test_only_so_many_threads_run_at_once_and_all_calls_end() -> None:
    lock, at_once, most = threading.Lock(), 0, 0
    full, go_on = threading.Event(), threading.Event()

    def slow(n: int) -> int:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
            if at_once == 3:
                full.set()
        go_on.wait(20)
        with lock:
            at_once -= 1
        return n

    async with tools_of(Tool(slow, effect="read"), policies={"threads": 3}) as tools:
        calls = [begin(tools, "slow", n=n) for n in range(20)]
        await until(full.is_set)
        go_on.set()
        assert await ended(*calls) == list(range(20))
    assert most == 3


async def test_a_thread_that_is_stuck_is_replaced_and_counted() -> None:
    go_on = threading.Event()

    def stuck() -> None:
        go_on.wait(20)

    def quick() -> str:
        return "quick"

    async with tools_of(
        Tool(stuck, effect="read", timeout_seconds=0.02, retry_attempts=0),
        Tool(quick, lane="quick"),
        policies={"threads": 1},
    ) as tools:
        assert (await tools.execute("stuck")).status == "timeout"
        assert tools.executor.workers.abandoned == 1
        assert tools.monitor.health()["abandoned_threads"] == 1
        assert (await tools.execute("quick")).result == "quick"
        go_on.set()
        await until(lambda: tools.executor.workers.abandoned == 0)


async def test_who_waits_for_a_thread_that_is_stuck_gets_another() -> None:
    go_on = threading.Event()

    def stuck() -> None:
        go_on.wait(20)

    def quick(n: int) -> int:
        return n

    async with tools_of(
        Tool(stuck, effect="read", timeout_seconds=0.02, retry_attempts=0),
        Tool(quick, lane="quick", effect="read"),
        policies={"threads": 1},
    ) as tools:
        calls = [begin(tools, "stuck"), *(begin(tools, "quick", n=n) for n in range(3))]
        assert await ended(*calls[1:]) == [0, 1, 2]
        assert (await calls[0]).status == "timeout"
        go_on.set()


async def test_a_call_that_is_cancelled_before_a_thread_is_free_never_runs() -> None:
    inside, go_on = threading.Event(), threading.Event()
    ran: list[str] = []

    def slow(name: str) -> None:
        ran.append(name)
        inside.set()
        go_on.wait(20)

    async with tools_of(Tool(slow, effect="read"), policies={"threads": 1}) as tools:
        first = begin(tools, "slow", name="a")
        await until(inside.is_set)
        second = begin(tools, "slow", name="b")
        for _ in range(5):
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        go_on.set()
        await ended(first)
    assert ran == ["a"]


async def test_a_thread_sees_the_context_variables_of_the_caller() -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")

    def who() -> str:
        return user.get()

    async with tools_of(who) as tools:
        user.set("Leonidas")
        assert (await tools.execute("who")).result == "Leonidas"


async def test_a_thread_tells_its_progress_on_the_loop_in_order() -> None:
    def slow(ctx: ToolContext) -> str:
        for n in range(200):
            ctx.progress(str(n))
        return threading.current_thread().name

    tools = tools_of(slow)
    told = Told(tools)
    threads: set[str] = set()
    tools.monitor.subscribe(lambda _: threads.add(threading.current_thread().name))
    async with tools:
        await tools.execute("slow")
    assert [event.data.get("message") for event in told.events[1:-1]] == [
        str(n) for n in range(200)
    ]
    assert threads == {threading.current_thread().name}


async def test_a_thread_can_see_that_its_call_is_cancelled() -> None:
    inside, seen = threading.Event(), threading.Event()

    def patient(ctx: ToolContext) -> None:
        inside.set()
        while not ctx.cancelled:
            time.sleep(0.001)
        seen.set()

    async with tools_of(Tool(patient, effect="read")) as tools:
        call = begin(tools, "patient")
        await until(inside.is_set)
        call.cancel()
        await until(seen.is_set)


async def test_arguments_may_have_any_name() -> None:
    def odd(function: int, args: int, kwargs: int, call: int, context: int) -> list[int]:
        return [function, args, kwargs, call, context]

    async with tools_of(odd) as tools:
        given = dict(zip(("function", "args", "kwargs", "call", "context"), range(5), strict=True))
        assert (await tools.execute("odd", given)).result == [0, 1, 2, 3, 4]


async def test_threads_end_when_nobody_holds_them_and_begin_again() -> None:
    def quick() -> int:
        return 1

    tools = tools_of(Tool(quick, effect="read"))
    for _ in range(3):
        async with tools:
            await ended(*(begin(tools, "quick") for _ in range(10)))
        await until(lambda: not tool_threads())


async def test_a_job_that_comes_as_the_threads_are_let_go_is_done() -> None:
    workers = Workers(threads=1)
    for n in range(200):
        assert await asyncio.wait_for(workers.in_thread(abs, -n), 20) == n
        await workers.close()


# --- processes -------------------------------------------------------------------------------


def processes() -> AdvancedToolProcessor:
    return tools_of(
        slow_sums.which_process,
        slow_sums.add,
        slow_sums.fails,
        slow_sums.exits,
        slow_sums.stops,
        slow_sums.computes_for_ever,
        slow_sums.returns_what_cannot_be_sent,
        policies={"processes": 1},
    )


async def test_a_cpu_bound_tool_runs_in_another_process_decorated_or_not() -> None:
    async with processes() as tools:
        first = await tools.execute("which_process")
        assert first.ok
        assert first.result not in (None, os.getpid())
        assert (await tools.execute("add", {"a": 1, "b": "2"})).result == 3


async def test_what_goes_wrong_in_another_process_is_one_failed_answer() -> None:
    async with processes() as tools:
        for name in ("fails", "exits", "returns_what_cannot_be_sent"):
            answer = (await tools.execute(name)).to_response()
            assert answer == {**FAILED, "message": f"The tool {name!r} failed."}
        assert (await tools.execute("add", {"a": 1, "b": 2})).result == 3


async def test_what_a_future_cannot_carry_is_one_failed_answer() -> None:
    async with processes() as tools, asyncio.timeout(20):
        answer = (await tools.execute("stops")).to_response()
    assert answer == {**FAILED, "message": "The tool 'stops' failed."}


async def test_cancelling_kills_the_process(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with processes() as tools:
        call = begin(tools, "computes_for_ever", file=str(file))
        await until(lambda: file.exists() and file.read_text(encoding="utf-8"))
        process = int(file.read_text(encoding="utf-8"))
        assert is_alive(process)
        call.cancel()
        await until(lambda: not is_alive(process))
        assert (await tools.execute("add", {"a": 1, "b": 2})).result == 3


async def test_a_process_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with processes() as tools:
        await tools.execute("add", {"a": 1, "b": 2})  # the process is there by now
        tools.registry.replace(slow_sums.computes_for_ever.with_options(timeout_seconds=0.5))
        answer = await tools.execute("computes_for_ever", {"file": str(file)})
        assert (answer.status, answer.retryable) == ("timeout", True)
        process = int(file.read_text(encoding="utf-8"))
        await until(lambda: not is_alive(process))


async def test_no_process_is_left_when_nobody_holds_them() -> None:
    async with processes() as tools:
        pid = (await tools.execute("which_process")).result
        assert is_alive(pid)
        assert multiprocessing.active_children()
    await until(lambda: not is_alive(pid))
    assert multiprocessing.active_children() == []
