"""Files that a user names, where they are none: every door says so, and none waits."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.private import PrivateFile
from leonidas_tools.files.reading import MAX_BYTES, open_file, read_file
from leonidas_tools.live.profiles import load_profiles
from leonidas_tools.mcp.transport.tls import tls_context
from leonidas_tools.settings.foreign_servers import read_foreign
from leonidas_tools.settings.load import load
from leonidas_tools.settings.mcp_settings import MCPServerSettings
from leonidas_tools.settings.watch import WatchedSettings
from leonidas_tools.settings.write import update_file
from leonidas_tools.simulator.audio import read_wav
from leonidas_tools.simulator.scenario_file import YamlSource


@pytest.fixture(autouse=True)
def _does_not_hang() -> Iterator[None]:
    """Ends a door that waits: without it the whole run would wait, too."""

    def end(*_: object) -> None:
        raise AssertionError("It waits for what never comes.")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to("fifo")


def endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def silent_device(path: Path) -> None:
    path.symlink_to("/dev/ptmx")


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


def directory(path: Path) -> None:
    path.mkdir()


def loop_of_links(path: Path) -> None:
    path.symlink_to(path.with_name("other"))
    path.with_name("other").symlink_to(path)


def too_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no room


KINDS: dict[Callable[[Path], None], str] = {
    fifo: "it is a FIFO, not a regular file",
    link_to_a_fifo: "it is a FIFO, not a regular file",
    endless_device: "it is a device, not a regular file",
    silent_device: "it is a device, not a regular file",
    unix_socket: "it is a socket, not a regular file",
    directory: "directory",
    loop_of_links: "symbolic links",
    too_large: "it is larger than",
}


def ca_file(path: Path) -> None:
    settings = MCPServerSettings.model_validate({"url": "https://x.example", "ca_file": str(path)})
    asyncio.run(tls_context(settings))


DOORS: dict[str, Callable[[Path], object]] = {
    "settings": load,
    "watched settings": WatchedSettings,
    "settings to write": lambda path: update_file(path, {"version": 1}),
    "another program's servers": read_foreign,
    "scenario": YamlSource.read,
    "pins and tokens": lambda path: PrivateFile(path).read(),
    "profiles": load_profiles,
    "certificates": ca_file,
    "recording": read_wav,
}
_BY_PIECES = {"certificates", "recording"}
"""Read by libraries of others, which take of a large file what they need."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_regular_file_is_refused_at_every_door(tmp_path, door, kind):
    if kind is too_large and door in _BY_PIECES:
        pytest.skip("it is read in pieces")
    path = tmp_path / "named"
    kind(path)
    with pytest.raises((ConfigurationError, OSError, ValueError), match=KINDS[kind]):
        DOORS[door](path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_program_starts_only_with_a_regular_env_file(tmp_path, kind):
    kind(tmp_path / ".env")
    done = subprocess.run(
        [sys.executable, "-m", "leonidas_tools", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if kind is directory:  # of a virtual environment, for example
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 2
        assert done.stderr.startswith("leonidas: .env: cannot be read: ")
        assert KINDS[kind] in done.stderr


def test_a_file_that_grows_while_it_is_read_is_bounded(tmp_path, monkeypatch):
    path = tmp_path / "growing"
    path.write_bytes(b"x")
    pieces = []

    def endless(_: int, size: int) -> bytes:
        pieces.append(size)
        return b"x" * size

    monkeypatch.setattr(os, "read", endless)
    with pytest.raises(OSError, match="larger than"):
        read_file(path)
    assert sum(pieces) <= MAX_BYTES + max(pieces)


def test_a_file_at_the_limit_is_read_whole(tmp_path):
    path = tmp_path / "full"
    path.write_bytes(b"x" * 100)
    assert read_file(path, 100) == b"x" * 100
    with pytest.raises(OSError, match="larger than 99 bytes"):
        read_file(path, 99)


def test_a_refused_file_is_closed(tmp_path):
    fifo(tmp_path / "fifo")
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(10):
        with pytest.raises(OSError, match="FIFO"):
            open_file(tmp_path / "fifo")
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_a_file_that_becomes_a_fifo_between_the_looks_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "named"
    path.write_text("version: 1")
    look = Path.stat

    def replacing(*args, **kwargs):
        found = look(*args, **kwargs)
        path.unlink()
        fifo(path)
        return found

    monkeypatch.setattr(Path, "stat", replacing)
    with pytest.raises(OSError, match="it is a FIFO"):
        open_file(path)


@pytest.mark.parametrize("kind", ["lock", "turn"])
async def test_a_link_in_place_of_a_lock_makes_no_file_elsewhere(tmp_path, kind):
    file, elsewhere = PrivateFile(tmp_path / "tokens.json"), tmp_path / "elsewhere"
    (tmp_path / f"tokens.json.{kind}").symlink_to(elsewhere)
    if kind == "lock":
        with pytest.raises(OSError, match="symbolic links"), file.hold_lock():
            pass
    else:
        async with file.turn(60):
            pass
    assert not elsewhere.exists()


def test_a_link_in_place_of_a_private_file_is_replaced_and_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "tokens.json").symlink_to(other)
    PrivateFile(tmp_path / "tokens.json").write("{}")
    assert other.read_text() == "kept"
    assert not (tmp_path / "tokens.json").is_symlink()
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600
