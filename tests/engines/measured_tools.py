"""One function for each place that a tool can run in, as `measure` calls them."""

from leonidas_tools import tool


@tool(effect="once", lane="off")
async def in_the_loop(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="once", lane="off")
def in_a_thread(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="once", lane="off", cpu_bound=True)
def in_a_process(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="once", lane="off", runs_on="ray", resources={"num_cpus": 0})
def on_ray(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="once", lane="off", runs_on="temporal")
async def in_temporal(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
