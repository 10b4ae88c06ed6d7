"""A tool of an MCP server over stdio: our whole path, and a bare `mcp.Client`, call by call."""

import statistics
import sys
import time
from pathlib import Path

from mcp import Client, StdioServerParameters

from tests.benchmarks.adapters.ours_execute import OursExecute
from tests.benchmarks.adapters.ours_stream import OursStream
from tests.benchmarks.workload import Figures, Goal, Workload, call, run

_SERVER = Path(__file__).parents[2] / "mcp" / "servers" / "life.py"
_ADAPTERS = {"ours_execute": OursExecute, "ours_stream": OursStream}
_WARM_UP = 50
_READY_SECONDS = 30


def measure(adapter: str, quick: bool) -> Figures:
    """The median time of a call in µs, ours and bare, taken in turns."""
    return run(_measure(adapter, 300 if quick else 1_000))


async def _measure(name: str, count: int) -> Figures:
    bare, ours = [], []
    config = {"mcp_servers": {"life": {"command": sys.executable, "args": [str(_SERVER)]}}}
    server = StdioServerParameters(command=sys.executable, args=[str(_SERVER)])
    async with Client(server) as client, _ADAPTERS[name]({}, config) as adapter:
        assert await adapter._tools.ready(_READY_SECONDS)
        for number in range(-_WARM_UP, count):
            arguments = {"a": number, "b": 1}
            start = time.perf_counter()
            answer = await client.call_tool("add", arguments)
            between = time.perf_counter()
            (ours_answer,) = await adapter.answer([call("add", arguments, number)])
            end = time.perf_counter()
            assert answer.structured_content == adapter.value(ours_answer) == {"result": number + 1}
            if number >= 0:
                bare.append(between - start)
                ours.append(end - between)
    figures = {"ours": statistics.median(ours) * 1e6, "bare": statistics.median(bare) * 1e6}
    return {**figures, "ratio": figures["ours"] / figures["bare"]}


WORKLOAD = Workload(
    title="A call of an MCP server over stdio",
    measure=measure,
    pairs={"ours_execute": 5, "ours_stream": 5},
    shown={"ours": "ours µs", "bare": "bare `mcp.Client` µs", "ratio": "ratio"},
    has_floor=False,
    goals=[
        Goal(
            text=f"a call of an MCP server over stdio, {how}, to a bare `mcp.Client` call",
            adapter=adapter,
            figure="ratio",
            bound=1.2,
            unit="x",
        )
        for adapter, how in (("ours_execute", "`execute`"), ("ours_stream", "stream"))
    ],
)
