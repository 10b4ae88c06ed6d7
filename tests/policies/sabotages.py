"""Tools that harm the process they run in."""

import asyncio
import builtins
import ctypes
import importlib
import itertools
import os
import resource
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from leonidas_tools import ToolError, ToolResult, tool
from leonidas_tools.calls.call import Media

_at_once = tool(cpu_bound=True)


@_at_once
def exits_at_once() -> None:
    os._exit(3)


@_at_once
def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@_at_once
def reads_where_nothing_is() -> None:
    ctypes.string_at(0)


@_at_once
def closes_every_file() -> None:
    os.closerange(0, 1024)


@_at_once
def writes_into_every_pipe() -> None:
    _write_everywhere(b"\x00\x00\x00\x04nope" * 9)


@_at_once
def writes_a_huge_answer_into_every_pipe() -> None:
    _write_everywhere(struct.pack(">I", 2**32 - 1))


def _write_everywhere(what: bytes) -> None:
    for number in range(3, 1024):
        try:
            os.write(number, what)
        except OSError:
            continue


@_at_once
def forks_and_dies() -> None:
    if os.fork() == 0:
        time.sleep(60)  # with the pipes of the worker open
    os._exit(3)


@_at_once
def starts_a_process_and_dies(file: str) -> None:
    process = os.fork()
    if process == 0:
        Path(file).write_text(str(os.getpid()), encoding="utf-8")
        time.sleep(60)
    while not Path(file).exists() or not Path(file).stat().st_size:
        time.sleep(0.001)
    os._exit(3)


@_at_once
def forks_and_both_return() -> None:
    os.fork()


@_at_once
def raises_system_exit() -> None:
    sys.exit("hunter2")


@_at_once
def raises_keyboard_interrupt() -> None:
    raise KeyboardInterrupt


class PickyError(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")


@_at_once
def raises_what_does_not_unpickle() -> None:
    raise PickyError(7, "hunter2")


class HiddenError(Exception):
    @property
    def __class__(self) -> NoReturn:
        raise RuntimeError("hunter2")

    def __str__(self) -> str:
        raise RuntimeError("hunter2")


@_at_once
def raises_what_cannot_be_shown() -> None:
    raise HiddenError


class RunsCode:
    def __reduce__(self) -> Any:
        return importlib.import_module, ("tests.policies.unpickled_here",)


class RunsCodeError(RunsCode, Exception):
    pass


@_at_once
def raises_what_runs_code_when_unpickled() -> None:
    raise RunsCodeError


@_at_once
def returns_what_runs_code_when_unpickled() -> RunsCode:
    return RunsCode()


@_at_once
def raises_stop_iteration() -> None:
    raise StopIteration


@_at_once
def raises_a_group() -> None:
    raise BaseExceptionGroup("hunter2", [KeyboardInterrupt(), ValueError()])


@_at_once
def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()


@_at_once
def cancels_all_tasks() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


@_at_once
def lowers_the_recursion_limit() -> None:
    sys.setrecursionlimit(len(_stack()) + 5)


def _stack() -> list[Any]:
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back  # type: ignore[assignment]  # the loop ends there
    return found


def _exit_at_signal(*_: object) -> None:
    os._exit(4)


@_at_once
def handles_every_signal() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number < signal.SIGRTMIN:
            signal.signal(number, _exit_at_signal)


@_at_once
def sets_an_alarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05)


@_at_once
def leaves_a_thread_that_exits() -> None:
    threading.Timer(0.05, os._exit, [5]).start()


@_at_once
def changes_the_directory() -> None:
    os.chdir("/")


@_at_once
def replaces_a_builtin() -> None:
    builtins.sum = None  # type: ignore[assignment]  # which is the point


@_at_once
def limits_its_memory() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))


@_at_once
def closes_its_output() -> None:
    sys.stdout.close()
    os.close(1)


@_at_once
def prints() -> None:
    print("x" * 100_000)


@_at_once
def returns_too_much() -> list[str]:
    return ["x" * 1000] * 100_000


@_at_once
def returns_an_endless_iterator() -> Iterator[int]:
    return itertools.count()


@_at_once
def takes_anything(value: Any) -> str:
    return type(value).__name__


@_at_once
def answers_itself() -> ToolResult:
    return ToolResult.no_results(
        "Nothing there.",
        result={"tried": (1, 2)},
        retry_hint="Try Friday.",
        reason_code="none",
        valid_options=["Friday"],
        media=[Media(mime_type="image/png", data=b"\x00\xff")],
        speech="Nothing.",
    )


@_at_once
def raises_tool_error() -> None:
    raise ToolError(
        "The shop is closed.",
        status="unavailable",
        retryable=True,
        retry_hint="Try after 9.",
        reason_code="closed",
        valid_options=["9", "10"],
    )


class LostError(ConnectionError):
    pass


@_at_once
def raises_connection_error() -> None:
    raise LostError("hunter2")


def draws() -> list[Any]:
    import numpy as np
    from PIL import Image

    return [np.arange(2), Image.new("RGB", (4, 3))]


def returns_an_error() -> Exception:
    return ValueError("the password is sesame")
