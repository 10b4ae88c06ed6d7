"""Tools that a Ray cluster runs: they are found there by the name of this module."""

import os
import signal
import threading
import time
from pathlib import Path

from leonidas_tools import RetryableError, ToolContext, ToolError, tool


@tool(effect="read", runs_on="ray", resources={"num_cpus": 0.5})
def process_id() -> int:
    """Say where it runs."""
    return os.getpid()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def greet(name: str) -> dict[str, object]:
    """Greet someone."""
    return {"greeting": f"Hello, {name}", "sizes": {1}, "path": Path("x")}


def count(to: int):
    """Count."""
    for number in range(1, to + 1):
        yield f"{number} of {to}"


def say_much():
    """Yield more than is shown."""
    yield "short"
    yield "x" * 2_000_000
    yield "end"


HAS_COUNTED = threading.Event()


def count_far():
    """Yield more often than anyone reads."""
    yield from range(10_000)
    HAS_COUNTED.set()


def report(ctx: ToolContext) -> str:
    """Report progress."""
    ctx.progress("halfway", fraction=0.5)
    return ctx.parameters["word"]


def needs_session(ctx: ToolContext) -> str:
    """Use what is not there."""
    return ctx.session.id


def busy() -> None:
    """Be busy."""
    raise ToolError("The line is busy", retry_hint="Call later", reason_code="busy")


def again() -> None:
    """Fail in passing."""
    raise RetryableError("Try again")


def broken() -> None:
    """Fail."""
    raise KeyError("secret-4711")


def die() -> None:
    """End the process."""
    os.kill(os.getpid(), signal.SIGKILL)


def stay(path: str) -> None:
    """Write that it has begun, and work on."""
    Path(path).write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)


def log(path: str) -> str:
    """Leave a line in a ledger."""
    with Path(path).open("a") as ledger:
        ledger.write("once\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never said"


def rest(seconds: float) -> str:
    """Rest."""
    time.sleep(seconds)
    return "rested"
