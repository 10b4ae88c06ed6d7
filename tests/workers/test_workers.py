"""Sync tools run in a pool of threads, CPU-bound ones in processes that can be killed."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import functools
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from leonidas_tools import AdvancedToolProcessor, ResultStatus, Tool, ToolContext, ToolResult
from leonidas_tools.calls.call import Media
from leonidas_tools.errors import SchemaError
from leonidas_tools.workers.threads import Workers
from tests.policies import sabotages, slow_sums, slow_to_import
from tests.policies.runs import Told, begin, ended, tools_of
from tests.promises.faults.play import tool_threads

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


async def test_threads_end_when_they_are_released_and_start_again() -> None:
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


async def test_what_a_tool_raises_in_another_process_is_one_failed_answer() -> None:
    async with processes() as tools:
        answer = (await tools.execute("fails")).to_response()
        assert answer == {**FAILED, "message": "The tool 'fails' failed."}
        assert (await tools.execute("add", {"a": 1, "b": 2})).result == 3


async def test_what_a_worker_process_says_is_reworded_too() -> None:
    texts = {"result_not_json": "{tool}: {problem}.", "value_too_deep": "it holds itself"}
    async with tools_of(slow_sums.returns_itself, texts=texts) as tools:
        answer = await tools.execute("returns_itself")
    assert answer.message == "returns_itself: it holds itself."


async def test_what_has_no_json_is_shown_as_text_from_another_process_too() -> None:
    async with processes() as tools:
        answer = await tools.execute("returns_what_cannot_be_sent")
    assert answer.ok
    assert "<lambda>" in answer.result


async def test_an_iterator_of_another_process_is_read_there_and_its_error_fails_the_call() -> None:
    async with tools_of(slow_sums.returns_an_iterator) as tools:
        read = await tools.execute("returns_an_iterator")
        failed = await tools.execute("returns_an_iterator", {"fails": True})
    assert read.result == [0, 1, 2, 3, 4]
    assert failed.to_response() == {
        **FAILED,
        "message": "The tool 'returns_an_iterator' failed.",
    }


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


async def test_no_process_is_left_once_they_are_released() -> None:
    async with processes() as tools:
        pid = (await tools.execute("which_process")).result
        assert is_alive(pid)
    await until(lambda: not is_alive(pid))


# --- what a tool does in another process harms its own call only -------------------------------

DIED = {
    "status": "unavailable",
    "message": "The process that ran the tool 'sabotage' ended unexpectedly.",
    "retryable": True,
    "reason_code": "worker_died",
}
SABOTAGE_FAILED = {**FAILED, "message": "The tool 'sabotage' failed."}
OK = {"status": "ok", "retryable": False}


def bounded(tool: Tool[..., Any], **options: Any) -> Tool[..., Any]:
    more: dict[str, Any] = {"effect": "read", "retry_attempts": 0, "timeout_seconds": 5}
    return tool.with_options(name="sabotage", **{**more, **options})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("exits_at_once", DIED),
        ("is_killed", DIED),
        ("reads_where_nothing_is", DIED),
        ("closes_every_file", DIED),
        ("writes_into_every_pipe", DIED),
        ("writes_a_huge_answer_into_every_pipe", DIED),
        ("forks_and_dies", DIED),
        ("raises_system_exit", SABOTAGE_FAILED),
        ("raises_keyboard_interrupt", SABOTAGE_FAILED),
        ("raises_what_does_not_unpickle", SABOTAGE_FAILED),
        ("raises_what_cannot_be_shown", SABOTAGE_FAILED),
        ("raises_what_runs_code_when_unpickled", SABOTAGE_FAILED),
        ("raises_stop_iteration", SABOTAGE_FAILED),
        ("raises_a_group", SABOTAGE_FAILED),
        ("stops_the_loop", SABOTAGE_FAILED),
        ("cancels_all_tasks", SABOTAGE_FAILED),
        ("lowers_the_recursion_limit", None),
        ("handles_every_signal", OK),
        ("sets_an_alarm", OK),
        ("leaves_a_thread_that_exits", OK),
        ("changes_the_directory", OK),
        ("replaces_a_builtin", OK),
        ("limits_its_memory", OK),
        ("closes_its_output", OK),
        ("forks_and_both_return", OK),
        ("prints", OK),
    ],
)
async def test_sabotage_in_another_process_harms_its_own_call_only(
    name: str, answer: dict[str, Any] | None
) -> None:
    sabotage = bounded(getattr(sabotages, name))
    before = running_children()
    async with tools_of(sabotage, slow_sums.add, policies={"processes": 1}) as tools:
        first = (await tools.execute("sabotage")).to_response()
        assert answer is None or first == answer
        for n in range(3):
            assert (await tools.execute("add", {"a": n, "b": 2})).to_response() == {
                **OK, "result": n + 2,
            }  # fmt: skip
    await until(lambda: running_children() <= before)


def running_children() -> set[int]:
    """Return the processes that this one has started and that still run."""
    found: set[int] = set()
    for file in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended since it was listed
            found |= {int(pid) for pid in file.read_text(encoding="utf-8").split()}
    return {pid for pid in found if not is_zombie(pid)}


async def test_what_a_process_has_started_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with tools_of(bounded(sabotages.starts_a_process_and_dies)) as tools:
        assert (await tools.execute("sabotage", {"file": str(file)})).to_response() == DIED
    process = int(file.read_text(encoding="utf-8"))
    await until(lambda: not is_alive(process) or is_zombie(process))


async def test_what_a_tool_returns_there_is_never_unpickled_here() -> None:
    async with tools_of(bounded(sabotages.returns_what_runs_code_when_unpickled)) as tools:
        answer = await tools.execute("sabotage")
    assert answer.to_response() == {**OK, "result": "<RunsCode>"}
    assert "tests.policies.unpickled_here" not in sys.modules


async def test_a_huge_result_is_cut_where_it_is_made() -> None:
    async with tools_of(bounded(sabotages.returns_too_much)) as tools:
        answer = await tools.execute("sabotage")
    assert answer.ok
    assert answer.message is not None
    assert answer.message.count("The result was truncated") == 1


async def test_an_endless_iterator_is_cut_where_it_is_made() -> None:
    async with tools_of(bounded(sabotages.returns_an_endless_iterator)) as tools:
        answer = await tools.execute("sabotage")
    assert answer.ok
    assert answer.result[:3] == [0, 1, 2]


async def test_a_result_of_its_own_making_comes_back_whole() -> None:
    async with tools_of(bounded(sabotages.answers_itself)) as tools:
        result = await tools.execute("sabotage")
    assert result == ToolResult(
        status=ResultStatus.NO_RESULTS,
        result={"tried": [1, 2]},
        message="Nothing there.",
        retry_hint="Try Friday.",
        reason_code="none",
        valid_options=["Friday"],
        media=(Media(mime_type="image/png", data=b"\x00\xff"),),
        speech="Nothing.",
    )


async def test_an_error_that_is_meant_for_the_model_comes_back_whole() -> None:
    async with tools_of(bounded(sabotages.raises_tool_error)) as tools:
        answer = (await tools.execute("sabotage")).to_response()
    assert answer == {
        "status": "unavailable",
        "message": "The shop is closed.",
        "retryable": True,
        "retry_hint": "Try after 9.",
        "reason_code": "closed",
        "valid_options": ["9", "10"],
    }


async def test_a_builtin_error_keeps_its_kind_for_retries(caplog: pytest.LogCaptureFixture) -> None:
    async with tools_of(bounded(sabotages.raises_connection_error, retry_attempts=1)) as tools:
        result = await tools.execute("sabotage")
    assert isinstance(result.error, ConnectionError)
    assert result.message == "The tool 'sabotage' failed. It was tried 2 times."
    logged = next(r.getMessage() for r in caplog.records if "raised" in r.getMessage())
    assert "raised LostError at " in logged
    assert "sabotages.py:" in logged
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("depth", [100, 500, 5_000, 100_000])
async def test_arguments_of_any_depth_are_one_answer(depth: int) -> None:
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    async with tools_of(bounded(sabotages.takes_anything), slow_sums.add) as tools:
        answer = await tools.execute("sabotage", {"value": deep})
        assert answer.ok or answer.status in {"invalid_argument", "failed"}
        assert (await tools.execute("add", {"a": 1, "b": 2})).result == 3


@pytest.mark.parametrize(
    ("effect", "status", "retryable"),
    [
        ("once", "unknown_outcome", False),
        ("idempotent", "unavailable", True),
        ("read", "unavailable", True),
    ],
)
async def test_the_effect_says_what_a_process_that_died_has_done(
    effect: str, status: str, retryable: bool
) -> None:
    async with tools_of(bounded(sabotages.exits_at_once, effect=effect)) as tools:
        answer = await tools.execute("sabotage")
    assert (answer.status, answer.retryable, answer.reason_code) == (
        status, retryable, "worker_died",
    )  # fmt: skip


async def test_a_process_that_died_while_idle_is_replaced_unnoticed() -> None:
    async with tools_of(slow_sums.which_process, slow_sums.add) as tools:
        pid = (await tools.execute("which_process")).result
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not is_alive(pid) or is_zombie(pid))
        assert (await tools.execute("add", {"a": 1, "b": 2})).result == 3


async def test_a_call_that_a_dying_process_never_read_runs_in_another() -> None:
    add = slow_sums.add.with_options(effect="once")
    async with tools_of(slow_sums.which_process, add, policies={"processes": 1}) as tools:
        pid = (await tools.execute("which_process")).result
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: is_stopped(pid))  # reads nothing from here on
        call = begin(tools, "add", a=1, b=2)
        await until(lambda: is_sent(tools))
        os.kill(pid, signal.SIGKILL)
        assert await ended(call) == [3]


def is_stopped(process: int) -> bool:
    threads = Path(f"/proc/{process}/task").glob("*/stat")
    return all(") T " in each.read_text(encoding="utf-8") for each in threads)


def is_sent(tools: AdvancedToolProcessor) -> bool:
    """Return whether the only worker process has not read its request."""
    (process,) = tools.executor.workers.processes._all
    unread = array.array("i", [0])
    fcntl.ioctl(process._connection.fileno(), termios.TIOCOUTQ, unread)
    return unread[0] > 0


def is_zombie(process: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:  # it is gone altogether
        return True


async def test_the_start_of_a_process_is_not_the_time_of_the_tool() -> None:
    slow_start = bounded(slow_to_import.quick, timeout_seconds=0.5)
    async with tools_of(slow_start) as tools:
        assert (await tools.execute("sabotage")).to_response() == {**OK, "result": "quick"}


async def test_a_process_starts_as_the_tools_are_entered() -> None:
    async with processes() as tools:
        await until(running_children)
        assert (await tools.execute("add", {"a": 1, "b": 2})).result == 3


# --- functions that another process cannot find ------------------------------------------------


def test_a_function_that_another_process_cannot_find_is_refused_at_once() -> None:
    def inside() -> None: ...

    for function in (inside, lambda: None, functools.partial(inside)):
        with pytest.raises(SchemaError, match="define the function at the top level of a module"):
            AdvancedToolProcessor([Tool(function, name="inner", cpu_bound=True)])


SCRIPT = """
import asyncio
from leonidas_tools import AdvancedToolProcessor, tool

print("imported as", __name__)

@tool(cpu_bound=True)
def where() -> str:
    return __name__

async def main():
    async with AdvancedToolProcessor([where]) as tools:
        print((await tools.execute("where")).result)

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_script_may_define_such_a_tool(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["imported as __main__", "__mp_main__"]


async def test_methods_partials_and_objects_run_in_another_process() -> None:
    made = slow_sums.Adder(3)
    async with tools_of(
        Tool(made.add, name="method", cpu_bound=True),
        Tool(functools.partial(slow_sums._add, b=4), name="partial", cpu_bound=True),
        Tool(made, name="object", cpu_bound=True),
    ) as tools:
        for name, result in (("method", 4), ("partial", 5), ("object", 4)):
            assert (await tools.execute(name, {"a": 1})).to_response() == {**OK, "result": result}


async def test_an_object_that_cannot_be_pickled_is_one_clear_answer() -> None:
    made = slow_sums.Adder(threading.Lock())
    async with tools_of(Tool(made.add, name="method", cpu_bound=True)) as tools:
        answer = await tools.execute("method", {"a": 1})
    assert (answer.status, answer.reason_code) == ("failed", "not_portable")
    assert answer.message is not None
    assert "'Adder.add' (TypeError) cannot be sent" in answer.message
