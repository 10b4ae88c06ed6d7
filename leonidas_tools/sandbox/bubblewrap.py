"""The command line of bubblewrap for a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leonidas_tools.sandbox.launcher import SECCOMP_FD, STATUS_FD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NOBODY = "65534"


def wrapped(  # noqa: PLR0913 - each is another part of the command line
    argv: Sequence[str],
    *,
    program: str,
    system: Sequence[str],
    read_only: Sequence[str],
    roots: Sequence[str],
    network: bool,
    environment: Mapping[str, str],
    directory: str,
    temporary_bytes: int | None,
) -> list[str]:
    """Return the command line that runs `argv` in namespaces of its own."""
    line = [program, "--unshare-all", "--unshare-user", "--uid", _NOBODY, "--gid", _NOBODY]
    line += ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    line += ["--seccomp", str(SECCOMP_FD), "--json-status-fd", str(STATUS_FD)]
    line += ["--share-net"] if network else ["--hostname", "sandbox"]
    size = [] if temporary_bytes is None else ["--size", str(temporary_bytes)]
    places = {path: _system_mount(path) for path in system if Path(path).exists()}
    places |= {path: ["--ro-bind", path, path] for path in read_only}
    places |= {path: ["--bind", path, path] for path in roots}
    places |= {
        "/dev": ["--dev", "/dev", *size, "--tmpfs", "/dev/shm"],  # noqa: S108 - in the sandbox
        # Read-only, for root outside could change the kernel through it, without any capability.
        "/proc": ["--proc", "/proc", "--remount-ro", "/proc"],
    }
    places["/tmp"] = places.get("/tmp", [*size, "--tmpfs", "/tmp"])  # noqa: S108 - in there too
    for path in sorted(places, key=lambda each: (len(Path(each).parts), each)):
        line += places[path]
    for name, value in environment.items():
        line += ["--setenv", name, value]
    return [*line, "--chdir", directory, "--", *argv]


def _system_mount(path: str) -> list[str]:
    if Path(path).is_symlink() and path.count("/") == 1:
        return ["--symlink", str(Path(path).readlink()), path]
    return ["--ro-bind", path, path]
