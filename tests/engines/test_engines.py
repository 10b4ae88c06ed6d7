"""The table of the engines, and the engines of a runtime."""

import sys

import pytest

from leonidas_tools import Tool, ToolRuntime
from leonidas_tools.engines.engines import ENGINES
from leonidas_tools.tools.metadata import RunsOn
from tests.engines import ray_tools


def test_each_value_of_runs_on_besides_here_is_an_engine():
    assert set(ENGINES) == set(RunsOn) - {RunsOn.HERE}


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_tool_whose_engine_is_not_installed_says_what_to_install(engine, monkeypatch):
    monkeypatch.setitem(sys.modules, ENGINES[engine].package, None)  # as where it is not there
    settings = {"defaults": {"runs_on": engine}, engine: {"address": "127.0.0.1:1"}}
    async with ToolRuntime([Tool(ray_tools.add, effect="read")], settings) as runtime:
        said = (await runtime.execute("add", {"a": 1, "b": 2})).to_response()
    assert (said["status"], said["reason_code"]) == ("unavailable", "engine_away")
    assert said["message"].endswith(f"pip install 'leonidas-tools[{engine}]'.")
    assert not said["retryable"]  # nor was it tried again


@pytest.mark.parametrize("engine", ENGINES)
async def test_another_address_applies_to_the_next_call(engine, monkeypatch, tmp_path):
    for name in ("RAY_ADDRESS", "TEMPORAL_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "none.toml"))
    settings = {"defaults": {"runs_on": engine, "retry_attempts": 0}}
    async with ToolRuntime([Tool(ray_tools.add, effect="once")], settings) as runtime:
        before = await runtime.execute("add", {"a": 1, "b": 2})
        runtime.settings.update({engine: {"address": "127.0.0.1:1", "connect": "200ms"}})
        after = await runtime.execute("add", {"a": 1, "b": 2})
    assert before.status == after.status == "unavailable"
    assert f"{engine}.address" in before.message  # none is known
    assert "_ADDRESS" in before.message
    assert "_ADDRESS" not in after.message
