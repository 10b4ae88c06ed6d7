"""What importing us adds to `import genai_processors.content_api`."""

import compileall
import importlib
import sys
import time
from pathlib import Path

from tests.benchmarks.workload import Figures, Goal, Workload

_OURS = Path(__file__).resolve().parents[3] / "leonidas_tools"
_ADDED = {
    "ours_import": ("leonidas_tools", None),
    "ours_stream": ("leonidas_tools", "AdvancedToolProcessor"),
    "function_calling": ("genai_processors.core.function_calling", "FunctionCalling"),
}


def measure(adapter: str, quick: bool) -> Figures:
    """Milliseconds and modules on top of what every program on Gemini imports."""
    from genai_processors import content_api

    assert content_api.__name__ in sys.modules
    # An installer leaves bytecode behind for both; a checkout need not have any for ours.
    compileall.compile_dir(_OURS, quiet=2)
    before = set(sys.modules)
    start = time.perf_counter()
    module, name = _ADDED[adapter]
    imported = importlib.import_module(module)
    if name is not None:
        getattr(imported, name)
    took = (time.perf_counter() - start) * 1e3
    return {"added": took, "modules": len(set(sys.modules) - before)}


WORKLOAD = Workload(
    title="Import, on top of `genai_processors.content_api`",
    measure=measure,
    pairs={"ours_import": 5, "ours_stream": 5, "function_calling": 1},
    shown={"added": "added ms", "modules": "added modules"},
    goals=[
        Goal(text=f"{what} adds", adapter=adapter, figure="added", bound=50, unit="ms")
        for adapter, what in (
            ("ours_import", "`import leonidas_tools`"),
            ("ours_stream", "`from leonidas_tools import AdvancedToolProcessor`"),
        )
    ],
    has_floor=False,
)
