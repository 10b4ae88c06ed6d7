"""The workloads, in the order of the table."""

import importlib
from typing import cast

from tests.benchmarks.workload import Workload

NAMES = (
    "latency",
    "policies",
    "policies_apart",
    "policies_stream",
    "throughput",
    "audio",
    "fan_out",
    "blocking",
    "many_tools",
    "large_result",
    "memory",
    "sessions",
    "imports",
    "agent",
    "live_frames",
    "live_cpu",
    "live_sessions",
    "live_resume",
    "live_call",
    "live_memory",
    "speech",
    "mcp",
    "sandbox",
)


def load(name: str) -> Workload:
    """One workload by name."""
    module = importlib.import_module(f"tests.benchmarks.workloads.{name}")
    return cast("Workload", module.WORKLOAD)
