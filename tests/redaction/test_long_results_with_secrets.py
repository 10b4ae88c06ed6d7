"""Secrets are looked for in long results beside the event loop, and in short ones on it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from leonidas_tools import AdvancedToolProcessor, Tool, ToolError, ToolResult
from leonidas_tools.redaction import KnownSecrets

SECRET = "sk-live-4711-zebra-AbCdEf"
LONG = f"all is well, {SECRET} too. " * 20_000
CONFIG = {
    "policies": {"max_result_bytes": 2_000_000},
    "tools": {"look": {"custom_parameters": {"api_key": SECRET}}},
}


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads in which secrets are looked for."""
    seen: set[int] = set()
    search = KnownSecrets.__call__

    def noted(self: KnownSecrets, value: Any) -> Any:
        seen.add(threading.get_ident())
        return search(self, value)

    monkeypatch.setattr(KnownSecrets, "__call__", noted)
    return seen


async def run(value: Any, **options: Any) -> ToolResult:
    async def look() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    tools = AdvancedToolProcessor(
        [Tool(look, name="look", effect="read", retry_attempts=0)], CONFIG, **options
    )
    async with tools:
        return await tools.execute("look")


LONG_VALUES = {
    "text": LONG,
    "list": [LONG],
    "rows": [{"id": n, "note": f"note {n} {SECRET}"} for n in range(5000)],
    "keys": {f"{n} {SECRET}": n for n in range(2000)},
    "result": ToolResult(result=LONG),
    "message": ToolResult(message=LONG),
    "speech": ToolResult(result="x", speech=LONG),
    "options": ToolResult.failed("x", valid_options=(LONG,)),
    "hint": ToolResult.failed("x", retry_hint=LONG),
    "error": ToolError(LONG),
    "tuple": (LONG, LONG),
    "set": {LONG},
    "deep": [[[[[[LONG]]]]]],
}


@pytest.mark.parametrize("kind", LONG_VALUES)
async def test_long_results_are_searched_beside_the_event_loop(
    kind: str, threads: set[int]
) -> None:
    result = await run(LONG_VALUES[kind])
    assert threads
    assert threading.get_ident() not in threads
    assert SECRET not in str(result.to_response())
    assert "***" in str(result.to_response())


async def test_long_results_of_a_policy_are_searched_there_too(threads: set[int]) -> None:
    async def instead(call: Any, run: Any) -> ToolResult:
        await run(call)
        return ToolResult(result=LONG)

    result = await run("short", policies=[instead])
    assert result.result == LONG.replace(SECRET, "***")
    threads.discard(threading.get_ident())
    assert threads, "the short result of the tool is searched at once, and the long one elsewhere"


@pytest.mark.parametrize("value", ["short", {"a": [1, SECRET]}, ToolResult(result=SECRET)])
async def test_short_results_need_no_thread(value: Any, threads: set[int]) -> None:
    await run(value)
    assert threads == {threading.get_ident()}
