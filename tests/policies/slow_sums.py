"""Tools that another process runs: it imports this module by itself."""

import os
import time
from pathlib import Path
from typing import Any

from leonidas_tools import Tool, tool


@tool(cpu_bound=True, effect="read", retry_attempts=0)
def which_process() -> int:
    return os.getpid()


def _add(a: int, b: int) -> int:
    return a + b


add = Tool(_add, name="add", cpu_bound=True)


@tool(cpu_bound=True, effect="read", retry_attempts=0)
def fails() -> None:
    raise ValueError("hunter2")


@tool(cpu_bound=True, effect="read", retry_attempts=0)
def stops() -> None:
    raise StopIteration


@tool(cpu_bound=True, effect="read", retry_attempts=0)
def computes_for_ever(file: str) -> None:
    Path(file).write_text(str(os.getpid()), encoding="utf-8")
    while True:
        time.sleep(0.01)


@tool(cpu_bound=True, effect="read", retry_attempts=0)
def returns_what_cannot_be_sent() -> object:
    return lambda: None


@tool(cpu_bound=True, effect="read", retry_attempts=0)
def returns_itself() -> dict[str, Any]:
    answer: dict[str, Any] = {}
    answer["again"] = answer
    return answer


class Adder:
    def __init__(self, b: Any) -> None:
        self.b = b

    def add(self, a: int) -> int:
        return int(a + self.b)

    def __call__(self, a: int) -> int:
        return self.add(a)


@tool(cpu_bound=True, effect="read", retry_attempts=0)
def returns_an_iterator(fails: bool = False) -> Any:
    return (1 // (3 - number) if fails else number for number in range(5))
