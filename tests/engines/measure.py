"""Measure what a call costs in each place: `python -m tests.engines.measure`.

It starts a Ray cluster and a Temporal server in a network of their own: Ray listens everywhere.
"""

import asyncio
import contextlib
import inspect
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ALONE = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
CALLS = {
    "in_the_loop": 2000,
    "in_a_thread": 2000,
    "in_a_process": 2000,
    "on_ray": 500,
    "in_temporal": 60,
}
AT_ONCE = 20
PROGRAMS = {
    "worker process": "workers.worker_process",
    "Ray driver": "engines.ray_driver",
    "Ray cluster": "ray",
    "Temporal server": "temporal server",
    "Temporal worker": "leonidas_tools worker",
}
BARE = """
import statistics, sys, time
import ray

ray.init(address=sys.argv[1], log_to_driver=False)

@ray.remote(num_cpus=0)
def add(a, b):
    return a + b

def timed():
    began = time.perf_counter()
    assert ray.get(add.remote(1, 2)) == 3
    return (time.perf_counter() - began) * 1e3

first, times = timed(), sorted(timed() for _ in range(int(sys.argv[2])))
middle, late = statistics.median(times), times[int(len(times) * 0.95)]
print(f"bare Ray task  first {first:9.2f}  p50 {middle:8.3f}  p95 {late:8.3f} ms")
"""
"""A program that calls the same function on a cluster by itself."""


async def measure():
    """Call each tool, and print what that took."""
    from leonidas_tools import ToolRuntime
    from tests.engines import measured_tools
    from tests.engines.on_ray import cluster
    from tests.engines.temporal.conftest import started

    os.environ["TEMPORAL_CONFIG_FILE"] = os.devnull
    tools = [getattr(measured_tools, name) for name in CALLS]
    with cluster() as ray:
        server = await started()
        temporal = server.client.service_client.config.target_host
        settings = {
            "ray": {"address": ray, "connect": "60s"},
            "temporal": {"address": temporal, "begin": "60s"},
            "defaults": {"timeout": "60s"},
        }
        with worker(temporal, inspect.getsource(measured_tools)):
            began = time.perf_counter()
            async with ToolRuntime(tools, settings, builtin_tools=False) as runtime:
                print(f"opened in {time.perf_counter() - began:.2f} s")
                for name, calls in CALLS.items():
                    await show(runtime, name, calls)
                await bare_ray_task(ray)
                for program, has in PROGRAMS.items():
                    print(f"{program:16}{megabytes(has):8.0f} MB")
        await server.shutdown()


@contextlib.contextmanager
def worker(address, tools):
    """Run a worker of a Temporal server, with these tools."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "measured.py").write_text(tools)
        config = Path(directory, "tools.yaml")
        config.write_text("toolboxes: [measured]\n")
        words = ("worker", "--config", config, "--address", address, "--calls", str(AT_ONCE))
        program = (sys.executable, "-m", "leonidas_tools", *words)
        with subprocess.Popen(program, stderr=subprocess.PIPE) as running:
            running.stderr.readline()  # it runs
            yield
            running.terminate()


async def show(runtime, name, calls):
    """Print the times of the first call, of calls after each other, and of calls at once."""
    first = await timed(runtime, name)
    times = sorted([await timed(runtime, name) for _ in range(calls)])
    began = time.perf_counter()
    await asyncio.gather(*(timed(runtime, name) for _ in range(AT_ONCE)))
    at_once = time.perf_counter() - began
    middle, late = statistics.median(times), times[int(len(times) * 0.95)]
    print(
        f"{name:14} first {first * 1e3:9.2f}  p50 {middle * 1e3:8.3f}  p95 {late * 1e3:8.3f}  "
        f"{AT_ONCE} at once {at_once * 1e3:8.2f} ms"
    )


async def bare_ray_task(address):
    """Print the times of the same function on the cluster without us."""
    words = (sys.executable, "-W", "ignore", "-c", BARE, address, str(CALLS["on_ray"]))
    program = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
    assert await program.wait() == 0


async def timed(runtime, name):
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    result = await runtime.execute(name, {"a": 1, "b": 2})
    ended = time.perf_counter()
    assert result.result == 3, result.message
    return ended - began


def megabytes(program):
    """Return the memory of the processes of a program, what they share counted once."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            named = words[:4000].split("tests.engines.measure")[0]
            if belongs(named, program):
                told = (process / "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in told if line.startswith("Pss:"))
    return total / 1024


def belongs(words, program):
    """Return whether a process with these words is part of a program."""
    if program != "ray":
        return program in words
    ours = any(each in words for each in PROGRAMS.values() if each != "ray")
    return not ours and ("/ray/" in words or "ray::" in words or "ray.scripts" in words)


if __name__ == "__main__":
    if sys.argv[1:] == ["inside"]:
        asyncio.run(measure())
        sys.stdout.flush()
        os._exit(0)  # else temporalio may crash the interpreter as it ends
    inside = f"ip link set lo up && exec {sys.executable} -m tests.engines.measure inside"
    sys.exit(subprocess.run([*ALONE, "sh", "-c", inside], check=False).returncode)
