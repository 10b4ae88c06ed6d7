"""No program takes more than its limits allow, and nothing of it is left over."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from leonidas_tools.sandbox import Finished, Limits, Sandbox
from tests.sandbox.boxes import PYTHON, alive, children, groups, sandbox, token

pytestmark = pytest.mark.slow

MEGABYTE = 1 << 20
PROJECT = Path(__file__).parents[2]


@pytest.fixture(params=["bubblewrap", "landlock", "none"])
def backend(request, why_not):
    reason = why_not[request.param]
    if reason is not None:
        pytest.skip(reason)
    return request.param


async def ran(backend, root, script, on_output=None, **limits) -> Finished:
    async with sandbox(backend, root, limits=limits) as box:
        return await box.run(["/bin/sh", "-c", script], on_output=on_output)


async def test_time(backend, tmp_path):
    word = token()
    finished = await ran(backend, tmp_path, f"echo begun; sleep {word}", timeout_seconds=2)
    assert finished.stopped_by == "timeout"
    assert finished.stdout == "begun\n"
    assert alive(word) == []


async def test_processor_time(backend, tmp_path):
    finished = await ran(backend, tmp_path, "exec 2>&1; while :; do :; done", cpu_seconds=1)
    assert finished.stopped_by == "cpu"


async def test_memory(backend, tmp_path):
    code = "x = bytearray(400 << 20); print(len(x))"
    finished = await ran(backend, tmp_path, f'{PYTHON} -c "{code}"', memory_bytes=200 * MEGABYTE)
    assert not finished.stdout
    assert "MemoryError" in finished.stderr or finished.stopped_by == "memory"


async def test_file_size(backend, tmp_path):
    script = "head -c 3000000 /dev/zero > big"
    finished = await ran(backend, tmp_path, script, file_bytes=MEGABYTE)
    assert not finished.ok
    assert (tmp_path / "big").stat().st_size == MEGABYTE


async def test_no_space(why_not, tmp_path):
    if why_not["bubblewrap"] is not None:
        pytest.skip(why_not["bubblewrap"])
    for place in ("/tmp", "/dev/shm"):
        script = f"head -c 30000000 /dev/zero > {place}/big; ls -s {place}/big >&2"
        finished = await ran("bubblewrap", tmp_path, script, memory_bytes=16 * MEGABYTE)
        assert "No space left" in finished.stderr or finished.stopped_by == "memory"


async def test_processes(backend, tmp_path):
    code = """
    import os, time
    try:
        for n in range(500):
            if os.fork() == 0:
                time.sleep(1000)
    except OSError as error:
        print(n, error.strerror, flush=True)
    """
    (tmp_path / "fork.py").write_text(textwrap.dedent(code))
    finished = await ran(backend, tmp_path, f"exec {PYTHON} fork.py", processes=20)
    number, _, problem = finished.stdout.partition(" ")
    assert int(number) <= 20
    assert "unavailable" in problem


async def test_a_fork_bomb_ends_with_its_time(backend, tmp_path):
    word = token()
    bomb = f"b() {{ sleep {word} & b | b & }}; b; wait"
    finished = await ran(backend, tmp_path, bomb, timeout_seconds=1, processes=30)
    assert finished.stopped_by in (None, "timeout")
    assert alive(word) == []


async def test_a_flood_of_output_is_bounded_from_both_ends(backend, tmp_path):
    script = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last"
    finished = await ran(backend, tmp_path, script, output_bytes=100_000)
    assert finished.ok
    assert finished.stdout.startswith("first\n")
    assert finished.stdout.endswith("x" * 1000 + "last\n")
    assert finished.left_out_bytes == 3_000_011 - 100_000
    assert len(finished.stdout) < 100_100


async def test_an_endless_flood_is_ended(backend, tmp_path):
    finished = await ran(backend, tmp_path, "yes", output_bytes=10_000)
    assert finished.stopped_by == "output"
    assert len(finished.stdout) < 10_100


async def test_output_arrives_while_the_program_runs(backend, tmp_path):
    heard = []

    def hear(stream, data):
        heard.append((stream, data))
        (tmp_path / "go").touch()

    script = "echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2"
    await ran(backend, tmp_path, script, on_output=hear)
    assert heard == [("stdout", b"one\n"), ("stderr", b"two\n")]


LEAVES = {
    "in the background": "sleep {word} & sleep {word} & echo begun",
    "in another session": "setsid sleep {word} & (setsid sleep {word} &) ; echo begun",
    "that ignores signals": "(trap '' TERM INT; setsid sleep {word}; sleep {word}) & echo begun",
    "stopped": "sleep {word} & kill -STOP $!; echo begun",
    "without its parent": "sh -c 'sh -c \"sleep {word} & sleep {word} &\" &' ; echo begun",
}


@pytest.mark.parametrize("leaves", LEAVES)
async def test_nothing_runs_after_the_program(backend, tmp_path, leaves):
    word = token()
    # Its output is closed first: what is left over would keep it open.
    script = LEAVES[leaves].format(word=word)
    finished = await ran(backend, tmp_path, script)
    assert finished.stdout == "begun\n"
    assert finished.ok
    assert alive(word) == []


@pytest.mark.parametrize("leaves", LEAVES)
async def test_nothing_runs_after_a_cancellation(backend, tmp_path, leaves):
    word, begun = token(), asyncio.Event()
    script = LEAVES[leaves].format(word=word) + f"; sleep {word}"
    task = asyncio.ensure_future(ran(backend, tmp_path, script, on_output=lambda *_: begun.set()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(word) == []


OWNER = """
import asyncio, sys
from tests.sandbox.boxes import sandbox

async def main():
    async with sandbox({backend!r}, {root!r}) as box:
        await box.run(["/bin/sh", "-c", {script!r}])

asyncio.run(main())
"""


async def gone(condition):
    while condition():
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("leaves", ["in another session", "that ignores signals"])
async def test_nothing_runs_after_our_own_death(backend, tmp_path, leaves):
    word = token()
    script = LEAVES[leaves].format(word=word) + f"; touch begun; sleep {word}"
    program = OWNER.format(backend=backend, root=str(tmp_path), script=script)
    owner = subprocess.Popen(  # noqa: ASYNC220 - ours
        [sys.executable, "-c", program],
        cwd=PROJECT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        await gone(lambda: not (tmp_path / "begun").exists() and owner.poll() is None)
        family = children(owner.pid)
        assert alive(word)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    await gone(lambda: alive(word))
    await gone(lambda: any(map(_runs, family)))
    assert list(tmp_path.glob("leonidas-sandbox-*")) == []


REPEATING = """
import asyncio
from pathlib import Path
from tests.sandbox.boxes import sandbox

async def main():
    async with sandbox({backend!r}, {root!r}) as box:
        while True:
            await box.run(["/bin/sh", "-c", {script!r}])

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("runs", range(1, 13))
async def test_nothing_runs_after_our_death_at_any_moment(backend, tmp_path, runs):
    word = token()
    script = f"sleep {word} & setsid sleep {word} & echo x >> begun"
    program = REPEATING.format(backend=backend, root=str(tmp_path), script=script)
    owner = subprocess.Popen([sys.executable, "-c", program], cwd=PROJECT)  # noqa: ASYNC220 - ours
    begun = tmp_path / "begun"
    try:
        # It is killed wherever it is then: before a program, in it, or as it ends.
        while owner.poll() is None and (not begun.exists() or begun.stat().st_size < 2 * runs):
            await asyncio.sleep(0)
        family = children(owner.pid)
    finally:
        owner.kill()
        owner.wait()
    await gone(lambda: alive(word) or any(map(_runs, family)))


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_nothing_is_left_when_the_sandbox_is_closed(backend, tmp_path):
    async with sandbox(backend, tmp_path) as box:
        await box.run(["true"])
        launcher = box._launcher.process.pid
        family = {launcher} | children(launcher)
    assert not any(map(_runs, family))
    assert not groups(launcher)


async def test_nothing_is_left_of_the_home_of_a_program(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = (
        "mkdir -p ~/a/b; echo x > ~/a/b/file; ln -s / ~/a/root; chmod 0 ~/a/b ~/a; mkfifo ~/pipe"
    )
    async with sandbox(backend, tmp_path) as box:
        assert (await box.run(["/bin/sh", "-c", script])).ok
    assert list(tmp_path.iterdir()) == []


async def test_many_programs_run_at_a_time(backend, tmp_path):
    async with sandbox(backend, tmp_path) as box:
        runs = [box.run(["/bin/sh", "-c", f"echo {n}; sleep 0.1"]) for n in range(12)]
        finished = await asyncio.gather(*runs)
    assert [each.stdout for each in finished] == [f"{n}\n" for n in range(12)]


async def test_a_launcher_that_has_died_is_replaced(backend, tmp_path):
    async with sandbox(backend, tmp_path) as box:
        assert (await box.run(["true"])).ok
        launcher = box._launcher.process
        family = children(launcher.pid)
        launcher.kill()
        launcher.wait()
        assert (await box.run(["true"])).ok
        await gone(lambda: any(map(_runs, family)))


def test_a_backend_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="bubblewrap"):
        Sandbox(backend="docker", limits=Limits())
