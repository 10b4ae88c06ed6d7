"""Programs are opened as the settings list them, without a shell, and stay open."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leonidas_tools import ToolRuntime
from leonidas_tools.errors import RegistryError

PROGRAM = """#!/bin/sh
env > "$0.env"
for each in "$@"; do printf '%s\\n' "$each"; done > "$0.arguments"
pwd > "$0.folder"
cut -d' ' -f6 /proc/self/stat > "$0.session"
echo $$ > "$0.pid.new"
mv "$0.pid.new" "$0.pid"
exec sleep 600
"""


@pytest.fixture
def program(tmp_path):
    """A program that writes down how it was started, and stays; it is ended after the test."""
    file = tmp_path / "program"
    file.write_text(PROGRAM)
    file.chmod(0o755)
    yield file
    pid = tmp_path / "program.pid"
    if pid.exists():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


def runtime(programs, **more):
    return ToolRuntime(config={"toolboxes": [{"launcher": {"programs": programs, **more}}]})


async def open_app(programs, name, **more):
    async with runtime(programs, **more) as tools:
        return (await tools.execute("app_launcher", {"app_name": name})).to_response()


async def until_written(file):
    """Wait until a program has written a file, which tells nobody."""
    async with asyncio.timeout(30):
        while not file.exists():
            await asyncio.sleep(0.01)
    return file.read_text()


def is_running(pid):
    """Return whether a process runs; one that has ended may wait for init to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


HOSTILE = ["a b", "; touch x", "$(touch x)", "`touch x`", "&& touch x", "*", "~", "", "'\"", "-rf"]


async def test_a_program_gets_its_arguments_as_they_are_and_outlives_the_agent(program, tmp_path):
    settings = {"Note Pad": {"command": [str(program), *HOSTILE], "folder": str(tmp_path)}}
    answer = await open_app(settings, "note  PAD")
    assert answer["speech"] == "I have opened Note Pad."
    assert answer["result"] == {"program": "Note Pad", "running": True}
    pid = int(await until_written(tmp_path / "program.pid"))
    assert is_running(pid)
    assert (tmp_path / "program.arguments").read_text().split("\n")[:-1] == HOSTILE
    assert (tmp_path / "program.folder").read_text().strip() == str(tmp_path)
    assert not (tmp_path / "x").exists()
    assert os.getsid(pid) == pid  # neither Ctrl-C nor a closed terminal ends it


async def test_a_program_gets_no_secrets_and_nothing_of_ours(program, tmp_path, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "s3cr3t-4711")
    monkeypatch.setenv("DATABASE_PASSWORD", "s3cr3t-4712")
    monkeypatch.setenv("EDITOR", "vi")
    settings = {"pad": {"command": [str(program)], "environment": {"PAD_THEME": "dark"}}}
    await open_app(settings, "pad")
    await until_written(tmp_path / "program.pid")
    environment = (tmp_path / "program.env").read_text()
    assert "s3cr3t" not in environment
    assert "EDITOR=vi" in environment
    assert "PAD_THEME=dark" in environment


async def test_an_unknown_program_is_answered_with_the_closest_names():
    names = ["Visual Studio Code", "Firefox", "Calculator", "Files", "Terminal", "Mail", "Music"]
    settings = {name: ["/nowhere"] for name in names}
    answer = await open_app(settings, "visual code")
    assert (answer["status"], answer["reason_code"]) == ("not_found", "unknown_program")
    assert answer["valid_options"][0] == "Visual Studio Code"
    answer = await open_app(settings, "calculater")
    assert answer["valid_options"][0] == "Calculator"
    assert len((await open_app(settings, "§§§"))["valid_options"]) == 5
    assert (await open_app({"Mail": ["/nowhere"]}, "x"))["valid_options"] == ["Mail"]


@pytest.mark.parametrize(
    "name", ["sh -c reboot", "/bin/sh", "../../bin/sh", "pad; sh", "pad\nsh", "", "x" * 101]
)
async def test_nothing_runs_that_the_settings_do_not_name(program, tmp_path, name):
    answer = await open_app({"pad": [str(program)]}, name)
    assert answer["status"] in ("not_found", "invalid_argument")
    assert not (tmp_path / "program.pid").exists()


async def test_other_names_of_a_program_open_it_too(program, tmp_path):
    answer = await open_app(
        {"pad": {"command": [str(program)], "also": ["记事本", "Bloco"]}}, "记事本"
    )
    assert answer["result"]["program"] == "pad"
    await until_written(tmp_path / "program.pid")


FAULTS = {
    "no such program": (["/no/such/program"], "unavailable"),
    "no such name": (["no-such-program-4711"], "unavailable"),
    "a folder": (["/tmp"], "unavailable"),
    "not executable": (["/etc/hostname"], "unavailable"),
    "no such folder to start in": (
        {"command": ["true"], "folder": "/no/such/folder"},
        "unavailable",
    ),
    "too many arguments": (["true", "x" * 3_000_000], "unavailable"),
    "it fails at once": (["sh", "-c", "exit 3"], "failed"),
    "it is killed at once": (["sh", "-c", "kill -9 $$"], "failed"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_program_that_cannot_be_opened_is_reported(fault):
    settings, status = FAULTS[fault]
    answer = await open_app({"pad": settings}, "pad", watch="30s")
    assert answer["status"] == status, answer


async def test_a_program_that_hands_over_and_ends_is_opened():
    answer = await open_app({"pad": ["true"]}, "pad", watch="30s")
    assert (answer["status"], answer["result"]["running"]) == ("ok", False)


async def test_output_of_a_program_goes_nowhere_and_holds_nothing_up():
    flood = [sys.executable, "-c", "print('x' * 10_000_000)"]
    answer = await open_app({"pad": flood}, "pad", watch="60s")
    assert (answer["status"], answer["result"]["running"]) == ("ok", False)


async def test_the_model_reads_which_programs_there_are():
    async with runtime({"Mail": ["true"], "Music": ["true"]}) as tools:
        said = tools.registry["app_launcher"].metadata.description
        listed = (await tools.execute("list_apps")).to_response()
    assert "Available: Mail, Music." in said
    assert listed["result"] == {"programs": ["Mail", "Music"]}
    assert listed["speech"] == "I can open Mail, Music."


@pytest.mark.parametrize(
    ("programs", "says"),
    [
        ({"pad": "code --wait"}, "is a string: list the program and its arguments"),
        ({"pad": []}, "is empty: list the program"),
        ({"pad": [" "]}, "is empty: list the program"),
        ({"pad": ["a\0b"]}, "has a null character"),
        ({"pad": {"command": ["a"], "foldr": "~"}}, "did you mean 'folder'"),
        ({"": ["a"]}, "must not be empty"),
        (["pad"], "should be a mapping"),
    ],
)
def test_wrong_settings_are_refused(programs, says):
    with pytest.raises(RegistryError, match=says):
        runtime(programs)


@pytest.fixture
def display():
    """The name of a display of a real X server without a screen."""
    if shutil.which("Xvfb") is None or shutil.which("xclock") is None:
        pytest.skip("Xvfb and xclock are not installed")
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", "1", "-nolisten", "tcp", "-screen", "0", "320x240x24"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield f":{server.stdout.readline().strip()}"
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


async def test_a_real_program_opens_its_window_on_the_desktop(display, tmp_path):
    command = ["sh", "-c", 'echo $$ > "$0"; exec xclock', str(tmp_path / "pid")]
    clock = {"command": command, "also": ["时钟"], "environment": {"DISPLAY": display}}
    answer = await open_app({"Clock": clock}, "时钟")
    pid = int(await until_written(tmp_path / "pid"))
    try:
        assert answer["result"] == {"program": "Clock", "running": True}
        async with asyncio.timeout(60):
            while not await shows(display, "xclock"):
                await asyncio.sleep(0.05)
    finally:
        os.kill(pid, signal.SIGTERM)
    async with asyncio.timeout(60):
        while is_running(pid):
            await asyncio.sleep(0.05)


async def shows(display, name):
    """Return whether a window of that name is on a display."""
    looking = await asyncio.create_subprocess_exec(
        "xwd", "-silent", "-display", display, "-name", name, "-out", os.devnull,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    return await looking.wait() == 0


async def test_without_a_display_a_desktop_program_is_reported_as_failed():
    if shutil.which("xclock") is None:
        pytest.skip("xclock is not installed")
    clock = {"command": ["xclock"], "environment": {"DISPLAY": ":4711"}}
    answer = await open_app({"Clock": clock}, "clock", watch="60s")
    assert (answer["status"], answer["reason_code"]) == ("failed", "ended_at_once")
