"""What failed for a passing reason is tried again, where that cannot do harm."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leonidas_tools import (
    AdvancedToolProcessor,
    ResultStatus,
    RetryableError,
    Tool,
    ToolError,
    ToolResult,
    tool,
)
from leonidas_tools.errors import (
    ConfigurationError,
    DependencyError,
    ToolTimeoutError,
    ToolValidationError,
)
from leonidas_tools.policies.retry import Retry
from leonidas_tools.settings.load import load
from tests.policies.bench import Bench, quiet
from tests.policies.clock import in_no_time, now

EFFECTS = ("read", "idempotent", "once")


class Flaky:
    """A tool that fails some times before it works, and knows when it ran."""

    def __init__(self, make: Any, *, failures: int = 100) -> None:
        self.ran_at: list[float] = []
        self._make = make
        self._failures = failures

    async def __call__(self) -> Any:
        self.ran_at.append(now())
        if len(self.ran_at) > self._failures:
            return "worked"
        made = self._make()
        if isinstance(made, BaseException):
            raise made
        return made

    def bench(self, effect: str, **options: Any) -> Bench:
        settings = options.pop("settings", {})
        return Bench(Tool(self, name="flaky", effect=effect, **options), **settings)


PASSING = {
    "any exception": lambda: ValueError("hunter2"),
    "os error": lambda: ConnectionResetError("hunter2"),
    "retryable": lambda: RetryableError("The line was busy."),
    "tool error": lambda: ToolError("Busy.", retryable=True),
    "unavailable": lambda: ToolError("Busy.", status="unavailable", retryable=True),
    "group": lambda: ExceptionGroup("hunter2", [ValueError()]),
    "result": lambda: ToolResult.failed("Busy.", retryable=True),
}
LASTING = {
    "tool error": lambda: ToolError("The shop is closed."),
    "bad argument": lambda: ToolValidationError("No such city."),
    "dependency": lambda: DependencyError(["a printer"]),
    "bug": lambda: TypeError("hunter2"),
    "typo": lambda: AttributeError("hunter2"),
    "exit": lambda: SystemExit(1),
    "interrupt": KeyboardInterrupt,
    "no retry": lambda: RetryableError("The line was busy.", retryable=False),
    "not found": lambda: ToolResult.not_found("No such order.", retryable=True),
    "no results": lambda: ToolResult.no_results("No flights.", retryable=True),
    "failed": lambda: ToolResult.failed("Broken."),
}


@pytest.mark.parametrize("effect", ["read", "idempotent"])
@pytest.mark.parametrize("kind", PASSING)
@in_no_time
async def test_what_may_be_repeated_is_tried_twice_more_after_a_passing_failure(
    kind: str, effect: str
) -> None:
    flaky = Flaky(PASSING[kind])
    result = await flaky.bench(effect).run("flaky")
    assert len(flaky.ran_at) == 3
    assert result.message is not None
    assert result.message.endswith(" It was tried 3 times.")


@pytest.mark.parametrize("kind", PASSING)
@in_no_time
async def test_a_side_effect_is_repeated_only_where_the_tool_says_nothing_happened(
    kind: str,
) -> None:
    flaky = Flaky(PASSING[kind])
    await flaky.bench("once", retry_attempts=4).run("flaky")
    assert len(flaky.ran_at) == (5 if kind == "retryable" else 1)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("kind", LASTING)
@in_no_time
async def test_what_trying_again_cannot_mend_is_not_tried_again(kind: str, effect: str) -> None:
    flaky = Flaky(LASTING[kind])
    bench = flaky.bench(effect, retry_attempts=4)
    result = await bench.run("flaky")
    assert len(flaky.ran_at) == 1
    assert "tried" not in (result.message or "")
    assert bench.told("tool_retry") == []


@in_no_time
async def test_what_a_tool_makes_of_its_arguments_is_not_what_it_is_tried_again_with() -> None:
    seen = []

    @tool(effect="read")
    async def look(names: list[str], where: dict[str, Any]) -> None:
        """Looks."""
        seen.append(([*names], dict(where)))
        names.append("Mallory")
        where["in"] = ["everything"]
        raise ConnectionResetError

    tools = AdvancedToolProcessor(tools=[look], builtin_tools=False)
    await tools.execute("look", {"names": ["Ana"], "where": {"in": []}})
    assert seen == [(["Ana"], {"in": []})] * 3


@pytest.mark.parametrize("effect", EFFECTS)
@in_no_time
async def test_it_stops_as_soon_as_it_works(effect: str) -> None:
    flaky = Flaky(PASSING["retryable"], failures=1)
    bench = flaky.bench(effect)
    assert (await bench.run("flaky")).to_response() == {
        "status": "ok", "result": "worked", "retryable": False,
    }  # fmt: skip
    assert len(flaky.ran_at) == 2
    assert bench.ends == [("flaky", "tool_complete")]


@pytest.mark.parametrize(
    ("own", "set_", "ran"), [(None, None, 3), (0, None, 1), (5, None, 6), (5, 1, 2), (5, 0, 1)]
)
@in_no_time
async def test_the_settings_say_how_often_before_the_tool_does(
    own: int | None, set_: int | None, ran: int
) -> None:
    flaky = Flaky(PASSING["retryable"])
    settings = {} if set_ is None else {"tools": {"flaky": {"retry_attempts": set_}}}
    await flaky.bench("read", retry_attempts=own, settings=settings).run("flaky")
    assert len(flaky.ran_at) == ran


@in_no_time
async def test_an_effect_of_the_settings_decides_too() -> None:
    flaky = Flaky(PASSING["any exception"])
    await flaky.bench("once", settings={"defaults": {"effect": "read"}}).run("flaky")
    assert len(flaky.ran_at) == 3


@in_no_time
async def test_the_waits_double_with_jitter_and_are_reported() -> None:
    flaky = Flaky(PASSING["retryable"])
    settings = {"defaults": {"retry_delay": "100ms", "timeout": "1m"}}
    bench = flaky.bench("read", retry_attempts=10, settings=settings)
    await bench.run("flaky")
    waits = [after - before for before, after in zip(flaky.ran_at, flaky.ran_at[1:], strict=False)]
    longest = [min(0.1 * 2**n, 10.0) for n in range(10)]
    assert all(most / 2 <= wait <= most for wait, most in zip(waits, longest, strict=True))
    assert bench.told("tool_retry") == [
        {"attempt": n + 1, "of": 10, "delay_seconds": round(wait, 3), "error": "failed"}
        for n, wait in enumerate(waits)
    ]


@in_no_time
async def test_two_calls_do_not_wait_the_same() -> None:
    first, second = Flaky(PASSING["retryable"]), Flaky(PASSING["retryable"])
    await first.bench("read").run("flaky")
    await second.bench("read").run("flaky")
    assert first.ran_at[1] - first.ran_at[0] != second.ran_at[1] - second.ran_at[0]


def test_no_wait_is_longer_than_ten_seconds_however_often_it_is_tried() -> None:
    retry = Retry(attempts=2000, delay_seconds=100.0)
    assert all(5.0 <= retry._delay(attempt) <= 10.0 for attempt in (1, 5, 1000))


@in_no_time
async def test_running_out_of_time_is_repeated_only_where_that_was_asked_for() -> None:
    async def hangs() -> None:
        ran.append(now())
        await asyncio.Event().wait()

    ran: list[float] = []
    usual = Tool(hangs, name="usual", effect="read", timeout_seconds=3, lane="a")
    asked = Tool(hangs, name="asked", effect="read", timeout_seconds=3, lane="b", retry_attempts=1)
    bench = Bench(usual, asked)
    assert (await bench.run("usual")).status == "timeout"
    assert len(ran) == 1
    result = await bench.run("asked")
    assert len(ran) == 3
    assert result.to_response() == {
        "status": "timeout",
        "message": "The tool 'asked' did not finish within 3 seconds. It was tried 2 times.",
        "retryable": True,
        "reason_code": "attempt_timeout",
    }
    assert [told["error"] for told in bench.told("tool_retry")] == ["timeout"]


@in_no_time
async def test_a_timeout_that_the_tool_itself_reports_counts_as_one() -> None:
    flaky = Flaky(lambda: ToolTimeoutError("The airline did not answer."))
    await flaky.bench("read").run("flaky")
    assert len(flaky.ran_at) == 1


@in_no_time
async def test_a_call_cancelled_between_two_attempts_is_not_tried_again() -> None:
    flaky = Flaky(PASSING["retryable"])
    bench = flaky.bench("once")
    call = bench.start("flaky")
    await quiet()
    assert len(bench.told("tool_retry")) == 1
    call.cancel()
    await quiet()
    await asyncio.sleep(60)
    assert len(flaky.ran_at) == 1
    assert bench.ends == [("flaky", "tool_cancel")]


def tried(settings, status):
    """How often a read that always fails is tried."""
    runs = []

    @tool(effect="read")
    async def read() -> ToolResult:
        runs.append(1)
        return ToolResult(status=ResultStatus(status), retryable=True)

    async def play_it():
        tools = AdvancedToolProcessor(
            [read], config={"tools": {"read": {"retry_attempts": 3, **settings}}}
        )
        await tools.execute("read")

    asyncio.run(play_it())
    return len(runs)


@pytest.mark.parametrize(
    ("retry_on", "status", "count"),
    [
        (["unavailable"], "unavailable", 4),
        (["unavailable"], "failed", 1),
        (["failed", "timeout"], "unavailable", 1),
        (["timeout"], "timeout", 4),
        ([], "failed", 1),
        (None, "failed", 4),
    ],
)
def test_the_kinds_of_failure_that_are_tried_again_are_a_setting(retry_on, status, count):
    assert tried({"retry_delay": 0, "retry_on": retry_on}, status) == count


def test_the_backoff_and_the_longest_delay_are_settings():
    retry = Retry(attempts=9, delay_seconds=1.0, backoff=3.0, longest_delay_seconds=5.0)
    longest = [max(retry._delay(n) for _ in range(200)) for n in (1, 2, 3)]
    assert [
        bound / 2 <= found <= bound for found, bound in zip(longest, (1, 3, 5), strict=True)
    ] == [True] * 3
    settings = load({"tools": {"a": {"retry_backoff": 3, "retry_longest_delay": "5s"}}})
    assert settings.tools["a"].retry_longest_delay == 5.0


@pytest.mark.parametrize(
    "wrong", [{"retry_on": ["denied"]}, {"retry_backoff": 0.5}, {"retry_longest_delay": 0}]
)
def test_a_retry_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        load({"tools": {"a": wrong}})
