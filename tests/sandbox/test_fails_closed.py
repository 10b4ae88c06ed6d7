"""Where the isolation that was asked for cannot be had, nothing runs, and the model is told why."""

import os
import sys

import pytest

from leonidas_tools import AdvancedToolProcessor, tool
from leonidas_tools.sandbox import NoSandboxError, Sandbox, launcher


async def refused(tmp_path, backend, **options):
    async with Sandbox(roots=[tmp_path], backend=backend, **options) as box:
        with pytest.raises(NoSandboxError) as caught:
            await box.run(["/bin/sh", "-c", "touch ran"])
    assert not (tmp_path / "ran").exists()
    return caught.value.reason


@pytest.fixture
def no_bubblewrap(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def no_landlock(monkeypatch):
    monkeypatch.setattr(launcher, "LANDLOCK_ABI", 1000)


async def test_without_bubblewrap(tmp_path, no_bubblewrap):
    assert "install the package 'bubblewrap'" in await refused(tmp_path, "bubblewrap")


async def test_without_a_kernel_that_is_new_enough(tmp_path, no_landlock):
    assert "1000 is needed" in await refused(tmp_path, "landlock")


async def test_without_both_auto_names_both(tmp_path, no_bubblewrap, no_landlock):
    reason = await refused(tmp_path, "auto")
    assert "bubblewrap: " in reason
    assert "landlock: " in reason


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_without_the_filter(tmp_path, why_not, backend, monkeypatch):
    if why_not[backend] is not None:
        pytest.skip(why_not[backend])
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    assert "extra 'sandbox'" in await refused(tmp_path, backend)


async def test_a_bubblewrap_that_may_not_make_namespaces_is_quoted(tmp_path, monkeypatch):
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert await refused(tmp_path, "bubblewrap") == (
        "bwrap: No permissions to create a new namespace"
    )


async def test_auto_takes_landlock_where_bubblewrap_does_not_work(tmp_path, why_not, no_bubblewrap):
    if why_not["landlock"] is not None:
        pytest.skip(why_not["landlock"])
    async with Sandbox(roots=[tmp_path]) as box:
        assert await box.chosen_backend() == "landlock"


async def test_the_model_reads_that_the_tool_is_unavailable_and_why(tmp_path, no_bubblewrap):
    @tool(effect="read")
    async def count() -> str:
        async with Sandbox(backend="bubblewrap") as box:
            return (await box.run(["true"])).stdout

    result = await AdvancedToolProcessor([count]).execute("count")
    assert result.to_response() == {
        "status": "unavailable",
        "message": "Programs cannot be run safely here, so nothing was run: bubblewrap is not "
        "installed: install the package 'bubblewrap'.",
        "retryable": False,
        "reason_code": "no_sandbox",
    }
