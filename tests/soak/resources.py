"""What this process holds: memory, tasks, descriptors, and processes it has started."""

import asyncio
import ctypes
import gc
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.memory_use import resident_kib

_KIB_PER_MIB = 1024


def resident_mib() -> float:
    """Return the resident memory, after a collection of garbage."""
    return resident_kib() / _KIB_PER_MIB


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What is in use, after all that can be given back was."""

    mib: float
    objects: int

    @classmethod
    def in_use(cls) -> "Memory":
        """Return what this process uses now."""
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:  # only glibc keeps what was freed
            trim(0)
        return cls(mib=resident_mib(), objects=len(gc.get_objects()))


@dataclass(frozen=True, kw_only=True)
class Resources:
    """All that has to be given back."""

    tasks: tuple[str, ...]
    descriptors: tuple[str, ...]
    processes: tuple[str, ...]

    @classmethod
    def held(cls) -> "Resources":
        """Return what this process holds now."""
        return cls(
            tasks=tuple(task.get_name() for task in asyncio.all_tasks()),
            descriptors=tuple(_descriptors()),
            processes=tuple(_children()),
        )

    def beyond(self, other: "Resources") -> list[str]:
        """Return what is held here and not in the other."""
        return [
            f"left: {kind} {what} ({count} times)"
            for kind in ("tasks", "descriptors", "processes")
            for what, count in (
                Counter(getattr(self, kind)) - Counter(getattr(other, kind))
            ).items()
        ]


def _descriptors() -> list[str]:
    """Return what each descriptor is: a path, or its kind without its number."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(each.readlink()).partition(":[")[0])
        except FileNotFoundError:  # that of the directory itself
            continue
    return found


def _children() -> list[str]:
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    pids = [pid for task in tasks for pid in (task / "children").read_text().split()]
    return [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip() for pid in pids]
