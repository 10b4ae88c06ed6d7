"""A session that pays and is killed meanwhile: `dying_session.py SETTINGS`, as JSON."""

import asyncio
import json
import sys

from leonidas_tools import ToolRuntime, ToolSession, tool


@tool(effect="once", runs_on="temporal", timeout_seconds=600, requires_approval=False)
async def pay(order: str) -> str:
    """Pay for an order: in a worker."""
    raise AssertionError(order)


async def main():
    async with ToolRuntime([pay], json.loads(sys.argv[1]), builtin_tools=False) as runtime:
        await runtime.execute("pay", {"order": "tea"}, session=ToolSession("ana"), call_id="a")


if __name__ == "__main__":
    asyncio.run(main())
