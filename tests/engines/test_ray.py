"""`runs_on: ray`: what needs no cluster here, and all the rest in a network of its own."""

import asyncio
import json
import pickle
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from leonidas_tools import Tool, ToolRuntime
from leonidas_tools.engines import ray, ray_driver
from leonidas_tools.engines.ray_driver import (
    RayTask,
    _Driver,
    run,
    run_telling,
    wait_for_end_of_node,
)
from leonidas_tools.errors import ConfigurationError, RetryableError, SchemaError
from tests.engines import ray_tools

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_tools_run_on_a_real_cluster(tmp_path):
    """Ray listens on every address, so it gets a network without any other machine."""
    alone = (
        "unshare",
        "--map-root-user",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    )
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network of its own is to be had here, and Ray listens on every address")
    inside = f"ip link set lo up && exec {sys.executable} -m pytest -q -p no:xdist -rA --tb=short"
    ended = subprocess.run(
        [*alone, "sh", "-c", f"{inside} tests/engines/on_ray.py --basetemp={tmp_path / 'inside'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=450,
    )
    assert ended.returncode == 0, ended.stdout[-8000:]
    assert " passed" in ended.stdout


async def test_without_an_address_the_tool_is_unavailable_and_says_what_to_set(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    settings = {"tools": {"add": {"runs_on": "ray", "retry_attempts": 0}}}
    async with ToolRuntime([Tool(ray_tools.add, effect="once")], settings) as runtime:
        result = await runtime.execute("add", {"a": 1, "b": 2})
    said = result.to_response()
    assert isinstance(result.error, RetryableError)  # its effect has not happened
    assert (said["status"], said["reason_code"], said["retryable"]) == (
        "unavailable", "ray_away", True,
    )  # fmt: skip
    assert "ray.address" in said["message"]


async def test_a_cluster_that_is_away_holds_no_session():
    settings = {
        "ray": {"address": "127.0.0.1:1", "connect": "200ms"},
        "tools": {"add": {"runs_on": "ray", "retry_attempts": 0}},
    }
    made = [Tool(ray_tools.add, effect="read"), Tool(ray_tools.greet, effect="read")]
    async with ToolRuntime(made, settings) as runtime:
        away = (await runtime.execute("add", {"a": 1, "b": 2})).to_response()
        assert (await runtime.execute("greet", {"name": "Ana"})).ok
    assert (away["status"], away["reason_code"]) == ("unavailable", "ray_away")


def test_what_cannot_run_on_ray_is_refused_with_what_to_do():
    with pytest.raises(SchemaError, match="leave one of them out"):
        Tool(ray_tools.add, cpu_bound=True, runs_on="ray").metadata  # noqa: B018
    with pytest.raises(SchemaError, match="mars"):
        Tool(ray_tools.add, runs_on="mars").metadata  # noqa: B018
    with pytest.raises(SchemaError, match="resources must map names to amounts"):
        Tool(ray_tools.add, runs_on="ray", resources={"num_cpus": "two"}).metadata  # noqa: B018
    with pytest.raises(ConfigurationError, match="runs_on"):
        ToolRuntime([], {"tools": {"add": {"runs_on": "mars"}}})


async def test_a_function_that_no_other_process_finds_is_named_with_the_reason():
    settings = {"ray": {"address": "127.0.0.1:1"}, "defaults": {"runs_on": "ray"}}

    def nested(a: int) -> int:
        """Be nested."""
        return a

    async with ToolRuntime([Tool(nested, effect="read")], settings) as runtime:
        said = (await runtime.execute("nested", {"a": 1})).to_response()
    assert said["reason_code"] == "not_portable"


def task(module):
    return RayTask(
        target=(None, module, "add", False),
        pickled=pickle.dumps(((1,), {"b": 2})),
        tool="add",
        max_bytes=1000,
        context=None,
        parameters={},
        collect=False,
    )


def test_the_text_of_an_error_while_a_module_is_imported_there_is_not_told(tmp_path, monkeypatch):
    (tmp_path / "leaks_at_import.py").write_text("raise ConnectionError('db://ana:hunter2@host')")
    monkeypatch.syspath_prepend(tmp_path)
    kind, error, place = json.loads(run(task("leaks_at_import")))
    assert (kind, error) == ("unloadable", "ConnectionError")
    assert "leaks_at_import.py" in place
    assert "hunter2" not in place


def test_an_error_that_cannot_be_read_there_has_failed_and_is_not_told(tmp_path, monkeypatch):
    (tmp_path / "raises_unreadable.py").write_text(
        "from leonidas_tools import ToolError\n"
        "class Odd(ToolError):\n"
        "    def __init__(self): pass\n"
        "    status = property(lambda self: 1 / 0)\n"
        "def add(a, b):\n"
        "    raise Odd\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert json.loads(run(task("raises_unreadable"))) == [
        "raised",
        {"kind": "Exception", "bases": []},
    ]


async def test_the_text_of_an_error_while_the_cluster_is_reached_is_not_told():
    settings = {
        "ray": {"address": "ana:hunter2@127.0.0.1:1", "connect": "60s"},
        "tools": {"add": {"runs_on": "ray", "retry_attempts": 0, "timeout": "60s"}},
    }
    async with ToolRuntime([Tool(ray_tools.add, effect="read")], settings) as runtime:
        said = (await runtime.execute("add", {"a": 1, "b": 2})).to_response()
    assert said["reason_code"] == "ray_away"
    assert "ValueError" in said["message"]
    assert "hunter2" not in str(said)


class Requests:
    """What the driver of a cluster is asked for, all of it while it begins the first call."""

    def __init__(self, *requests):
        self.all_read, self.sent = threading.Event(), []
        self._left = list(requests)

    def receive(self):
        if not self._left:
            self.all_read.set()
            threading.Event().wait()
        return self._left.pop(0)

    def send(self, message):
        self.sent.append(message)


async def test_a_call_that_is_cancelled_before_it_began_does_not_begin():
    work = tuple(task("tests.engines.ray_tools"))
    calls = [("call", number, work, False, ()) for number in range(3)]
    requests, begun = Requests(calls[0], calls[1], ("cancel", 1), calls[2]), []
    both = asyncio.Event()

    class Ray:
        def remote(self, **_):
            return Function

        def cancel(self, *_, **__):
            raise AssertionError("nothing runs that could be cancelled")

    class Function:
        def __init__(self, function):
            self._function = function

        def remote(self, work):
            requests.all_read.wait()
            begun.append(work)
            return self._outcome(work)

        async def _outcome(self, work):
            if len(begun) == 2:
                both.set()
            return self._function(work)

    serving = asyncio.create_task(_Driver(requests, Ray()).serve())
    async with asyncio.timeout(60):
        await both.wait()
    serving.cancel()
    await asyncio.wait([serving])
    assert len(begun) == 2
    assert {message[-1] for message in requests.sent} <= {0, 2}


def test_progress_that_is_too_long_to_show_is_left_out():
    work = task("tests.engines.ray_tools")._replace(
        target=(None, "tests.engines.ray_tools", "say_much", False), pickled=pickle.dumps(((), {}))
    )
    kinds = [json.loads(each)[:2] for each in run_telling(work)]
    assert kinds[:-1] == [["progress", {"message": "short"}]]
    assert kinds[-1][0] == "returned"


def test_progress_that_is_not_read_is_left_out_and_the_outcome_is_not(monkeypatch):
    monkeypatch.setattr(ray_driver, "_MAX_WAIT_SECONDS", 0)
    monkeypatch.setattr(ray_tools, "HAS_COUNTED", threading.Event())
    work = task("tests.engines.ray_tools")._replace(
        target=(None, "tests.engines.ray_tools", "count_far", False), pickled=pickle.dumps(((), {}))
    )
    messages = run_telling(work)
    first = next(messages)
    assert ray_tools.HAS_COUNTED.wait(60)
    *told, outcome = map(json.loads, [first, *messages])
    assert len(told) < 100
    assert told[0] == ["progress", {"value": 0}]
    assert (outcome[0], outcome[1]["result"]) == ("returned", 9_999)


@pytest.fixture
def driver_sends(monkeypatch):
    """Return a function that replaces the driver by a program that sends some bytes and hangs."""
    monkeypatch.setattr(ray, "_PROGRAM", "tests.engines.stuck_driver")
    return lambda sent: monkeypatch.setenv("STUCK_DRIVER_SENDS", sent.hex())


def on_ray(tool, *, timeout):
    """Return settings with a tool on a cluster to which nobody connects."""
    return {
        "ray": {"address": "127.0.0.1:1", "connect": "1h"},
        "tools": {tool: {"runs_on": "ray", "retry_attempts": 0, "timeout": timeout}},
    }


async def test_a_driver_that_reads_no_requests_does_not_hold_the_event_loop(driver_sends):
    connected = b'["connected", "2", 0]'
    driver_sends(struct.pack(">I", len(connected)) + connected)
    settings = on_ray("greet", timeout="1s")
    async with ToolRuntime([Tool(ray_tools.greet, effect="read")], settings) as runtime:
        calls = [runtime.execute("greet", {"name": "a" * 9_000}) for _ in range(20)]
        ended = await asyncio.gather(*calls)
    assert {each.status.value for each in ended} == {"timeout"}


def test_a_driver_knows_that_its_node_has_gone_also_if_another_cluster_responds():
    mine, other = {"NodeID": "a", "Alive": True}, {"NodeID": "b", "Alive": True}
    dead = {**mine, "Alive": False}
    seen = iter([[other], [mine], [other], [mine, other], None, [dead, other], [other]])
    pauses = []

    class Ray:
        def get_runtime_context(self):
            return self

        def get_node_id(self):
            return "a"

        def nodes(self):
            nodes = next(seen)
            if nodes is None:
                raise RuntimeError("no answer")
            return nodes

    wait_for_end_of_node(Ray(), lambda: pauses.append(1))
    assert len(pauses) == 7


async def test_a_driver_that_sends_too_much_ends_and_holds_no_call(driver_sends):
    driver_sends(struct.pack(">I", 2**31 - 1))
    settings = on_ray("add", timeout="1h")
    async with ToolRuntime([Tool(ray_tools.add, effect="read")], settings) as runtime:
        said = (await runtime.execute("add", {"a": 1, "b": 2})).to_response()
    assert said["reason_code"] == "ray_away"
