"""A policy of your own stands around every call: here one that keeps office hours.

A policy is `async (call, run) -> result`. It may refuse, change the call, run it, look at the
result, or run it again. Run it: `python examples/own_policy.py`
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from datetime import time

from leonidas_tools import AdvancedToolProcessor, ResultStatus, ToolCall, ToolResult, tool

Run = Callable[[ToolCall], Awaitable[ToolResult]]


class OfficeHours:
    """Refuse calls of tools with the tag `office` outside office hours."""

    def __init__(self, now: Callable[[], time]) -> None:
        self._now = now

    async def __call__(self, call: ToolCall, run: Run) -> ToolResult:
        """Run a call, or refuse it."""
        if "office" in call.tags and not time(9) <= self._now() < time(17):
            return ToolResult(
                status=ResultStatus.DENIED,
                message="The office is closed; offer to call back tomorrow after nine.",
                reason_code="office_closed",
            )
        return await run(call)


@tool(tags=["office"])
def connect_to_person(department: str) -> str:
    """Connects the caller to a person in a department."""
    return f"You are being connected to {department}."


@tool(effect="read")
def opening_hours() -> str:
    """Returns the opening hours."""
    return "9 to 17"


async def main() -> None:
    for now in (time(18), time(10)):
        hours = OfficeHours(functools.partial(time.replace, now))
        async with AdvancedToolProcessor(
            tools=[connect_to_person, opening_hours], policies=[hours]
        ) as tools:
            print("at", now)
            for name, arguments in (
                ("connect_to_person", {"department": "sales"}),
                ("opening_hours", {}),
            ):
                result = await tools.execute(name, arguments)
                print(" ", name, result.status.value, "-", result.result or result.message)


if __name__ == "__main__":
    asyncio.run(main())
