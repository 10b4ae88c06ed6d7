"""Ours as a stream, with room for answers of 2 MB; by default a long answer is cut."""

from tests.benchmarks.adapter import Functions
from tests.benchmarks.adapters.ours_stream import OursStream

_CONFIG = {"policies": {"max_result_bytes": 2_000_000}}


def make(functions: Functions) -> OursStream:
    """Our stream over these functions."""
    return OursStream(functions, _CONFIG)
