"""What tests of the sandbox share: which backends work here, and who still runs."""

import itertools
import os
import sys
from pathlib import Path

from leonidas_tools.sandbox import Limits, Sandbox

ISOLATING = ("bubblewrap", "landlock")
PYTHON = os.path.realpath(sys.executable)
_NUMBERS = itertools.count(1)


def token() -> str:
    """A number of seconds that no other process sleeps, by which one is found."""
    return f"86399.{os.getpid()}{next(_NUMBERS):05}"


def alive(word: str) -> list[int]:
    """The processes whose command line has the word."""
    return [pid for pid, line in _command_lines() if word.encode() in line]


def children(of: int) -> set[int]:
    """All descendants of a process."""
    parents = {pid: _parent(pid) for pid, _ in _command_lines()}
    found = {of}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {of}


def groups(launcher: int) -> list[str]:
    """The control groups that a launcher has made and not removed."""
    walked = os.walk("/sys/fs/cgroup")  # which others change meanwhile
    return [each for each, *_ in walked if Path(each).name.startswith(f"leonidas-{launcher}-")]


def _command_lines():
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes()
            except OSError:
                continue


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def sandbox(backend: str, *roots: Path, **options) -> Sandbox:
    """A sandbox with Python in it."""
    limits = Limits(**{"timeout_seconds": 60, **options.pop("limits", {})})
    read_only = [sys.base_prefix, *options.pop("read_only", ())]
    return Sandbox(roots=roots, read_only=read_only, backend=backend, limits=limits, **options)
