"""How much memory this process holds."""

import gc
import os
import tracemalloc
from pathlib import Path


def resident_kib() -> float:
    """What the system counts, after a collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def traced_bytes() -> int:
    """What Python's allocator counts, after a collection."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
