"""A tool whose needs are not met says so at once, and names them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from leonidas_tools import Settings, Tool, ToolConfiguration
from tests.policies.bench import Bench


def needing(*dependencies: str, ran: list[str] | None = None, **settings: Any) -> Bench:
    async def prints() -> str:
        if ran is not None:
            ran.append("prints")
        return "printed"

    async def other() -> None: ...

    return Bench(Tool(prints, dependencies=dependencies), other, **settings)


async def test_a_tool_whose_needs_are_met_runs() -> None:
    bench = needing("other", "module:json", "module:importlib.util", "command:sh")
    assert (await bench.run("prints")).result == "printed"


@pytest.mark.parametrize(
    "name",
    [
        "printer",
        "module:no_such_module",
        "module:no_such_package.inside",
        "module:json.no_such_module",
        "module:json.decoder.too_deep",
        "command:no-such-command",
        "module:",
        "command:",
        "module:.relative",
        "module:not a name",
    ],
)
async def test_what_is_missing_is_named(name: str) -> None:
    ran: list[str] = []
    bench = needing("other", name, "module:json", ran=ran)
    assert (await bench.run("prints")).to_response() == {
        "status": "unavailable",
        "message": f"The tool needs {name!r}, which is not available.",
        "retryable": False,
        "reason_code": "missing_dependency",
    }
    assert ran == []


async def test_all_that_is_missing_is_named_at_once() -> None:
    result = await needing("printer", "module:no_such_module", "other", "ink").run("prints")
    assert result.message == (
        "The tool needs 'printer', 'module:no_such_module', 'ink', which is not available."
    )


async def test_a_tool_that_is_switched_off_is_missing_until_it_is_switched_on() -> None:
    bench = needing("other", tools={"other": {"enabled": False}})
    assert (await bench.run("prints")).status == "unavailable"
    bench.executor.apply(Settings(tools={"other": ToolConfiguration(enabled=True)}))
    assert (await bench.run("prints")).result == "printed"


async def test_a_tool_is_missed_from_when_it_is_unregistered() -> None:
    bench = needing("other")
    assert (await bench.run("prints")).ok
    bench.executor.registry.unregister("other")
    assert (await bench.run("prints")).status == "unavailable"


async def test_a_module_that_is_there_without_a_file_counts() -> None:
    sys.modules["made_by_a_test"] = ModuleType("made_by_a_test")
    try:
        assert (await needing("module:made_by_a_test").run("prints")).result == "printed"
    finally:
        del sys.modules["made_by_a_test"]


async def test_a_package_that_cannot_be_imported_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package/__init__.py").write_text("raise OSError('hunter2')")
    monkeypatch.syspath_prepend(tmp_path)
    result = await needing("module:broken_package.inside").run("prints")
    assert result.status == "unavailable"


async def test_bad_arguments_are_reported_before_missing_dependencies() -> None:
    assert (await needing("printer").run("prints", ink="red")).status == "invalid_argument"
