"""Tools that do what no tool should."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import decimal
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from leonidas_tools import RetryableError, Tool, ToolError, ToolResult, tool


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("hunter2")

    __repr__ = __str__


class UnshowableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("hunter2")

    __repr__ = __str__


class OddExit(BaseException):
    """An exception beside the tree of `Exception`."""


class Thing:
    """An object without a text of its own."""


RAISED: dict[str, Any] = {
    "exception": lambda: ValueError("hunter2"),
    "exception_group": lambda: ExceptionGroup("hunter2", [ValueError("hunter2"), OSError()]),
    "unshowable_error": UnshowableError,
    "base_exception": lambda: OddExit("hunter2"),
    "base_exception_group": lambda: BaseExceptionGroup("hunter2", [OddExit()]),
    "system_exit": lambda: SystemExit(3),
    "keyboard_interrupt": KeyboardInterrupt,
    "generator_exit": GeneratorExit,
    "stop_iteration": StopIteration,
    "stop_async_iteration": StopAsyncIteration,
    "cancelled_error": asyncio.CancelledError,
    "timeout_error": TimeoutError,
    "recursion_error": lambda: RecursionError("hunter2"),
    "memory_error": MemoryError,
}

RETURNED: dict[str, tuple[Any, Any]] = {
    "set": (lambda: {7}, [7]),
    "frozenset": (lambda: frozenset({"a"}), ["a"]),
    "tuple": (lambda: (1, 2), [1, 2]),
    "decimal": (lambda: decimal.Decimal("1.50"), "1.50"),
    "uuid": (lambda: uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "date": (lambda: dt.date(2025, 1, 2), "2025-01-02"),
    "datetime": (lambda: dt.datetime(2025, 1, 2, 3), "2025-01-02T03:00:00"),  # noqa: DTZ001 - any will do
    "nan": (lambda: float("nan"), "nan"),
    "inf": (lambda: [float("inf"), -float("inf")], ["inf", "-inf"]),
    "bytes": (lambda: b"ab", "YWI="),
    "object": (Thing, "<Thing>"),
    "int_keys": (lambda: {1: "a", None: "b"}, {"1": "a", "None": "b"}),
    "empty_text": (lambda: "", ""),
    "zero": (lambda: 0, 0),
    "false": (lambda: False, False),
    "empty_list": (list, []),
    "generator": (lambda: (n for n in range(3)), [0, 1, 2]),
    "range": (lambda: range(3), [0, 1, 2]),
    "huge_int": (lambda: 10**5000, None),
}


def raising(name: str, kind: str, effect: str = "once") -> Tool[..., Any]:
    """A tool that raises, of one of the kinds a tool can be."""
    make = RAISED[name]

    async def as_async() -> None:
        raise make()

    def as_sync() -> None:
        raise make()

    async def as_async_generator() -> AsyncIterator[str]:
        yield "half"
        raise make()

    def as_generator() -> Iterator[str]:
        yield "half"
        raise make()

    functions = {
        "async": as_async,
        "sync": as_sync,
        "async_generator": as_async_generator,
        "generator": as_generator,
    }
    return Tool(functions[kind], name="faulty", effect=effect, lane="faulty", retry_attempts=0)


def returning(make: Any, kind: str = "async") -> Tool[..., Any]:
    """A tool that returns what it should not."""

    async def as_async() -> Any:
        return make()

    def as_sync() -> Any:
        return make()

    return Tool({"async": as_async, "sync": as_sync}[kind], name="faulty", lane="faulty")


@tool(name="faulty", lane="faulty", effect="read")
def exits() -> None:
    sys.exit("hunter2")


@tool(name="faulty", lane="faulty")
async def cancels_itself() -> int:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return 7


@tool(name="faulty", lane="faulty")
async def cancels_itself_and_waits() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()


@tool(name="faulty", lane="faulty", effect="read", retry_attempts=1)
async def cancels_itself_and_fails() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    raise ValueError("hunter2")


@tool(name="faulty", lane="faulty")
async def raises_tool_error() -> None:
    raise ToolError(
        "The shop is closed.",
        status="unavailable",
        retryable=True,
        retry_hint="Try after 9.",
        reason_code="closed",
        valid_options=["9", "10"],
    )


@tool(name="faulty", lane="faulty", retry_attempts=0)
async def raises_retryable_error() -> None:
    raise RetryableError("The line was busy.")


@tool(name="faulty", lane="faulty")
async def answers_itself() -> ToolResult:
    return ToolResult.no_results("No flights on that day.", retry_hint="Try Friday.")


@tool(name="faulty", lane="faulty", effect="read", timeout_seconds=0.05, retry_attempts=0)
async def never_returns() -> None:
    await asyncio.Event().wait()


@tool(name="faulty", lane="faulty", timeout_seconds=0.05)
async def never_returns_once() -> None:
    await asyncio.Event().wait()


@tool(name="faulty", lane="faulty", effect="read", timeout_seconds=0.05, retry_attempts=0)
async def never_ends() -> AsyncIterator[int]:
    while True:
        await asyncio.sleep(0)
        yield 1


@tool(name="faulty", lane="faulty", effect="read", timeout_seconds=0.05, retry_attempts=0)
async def never_ends_nor_waits() -> AsyncIterator[int]:
    while True:
        yield 1


@tool(name="faulty", lane="faulty", effect="read", timeout_seconds=0.05, retry_attempts=0)
def never_ends_in_a_thread() -> Iterator[int]:
    while True:
        yield 1


class Gate:
    """Lets what a test holds back go on, when the test is over."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self._opened = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.set()
        self._opened.set()

    def ignores_cancellation(self) -> Tool[..., Any]:
        async def stubborn() -> str:
            while not self._opened.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await self._opened.wait()
            return "at last"

        return Tool(
            stubborn, name="faulty", lane="faulty", effect="idempotent", timeout_seconds=0.05,
            retry_attempts=0,
        )  # fmt: skip

    def blocks_its_thread(self) -> Tool[..., Any]:
        def blocked() -> str:
            self.opened.wait(30)
            return "at last"

        return Tool(
            blocked, name="faulty", lane="faulty", effect="read", timeout_seconds=0.05,
            retry_attempts=0,
        )  # fmt: skip
