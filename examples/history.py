"""What happened is kept: every call, with its end, and masked secrets.

The store is a SQLite file by default, or PostgreSQL. `leonidas history` shows it.
Run it: `python examples/history.py`
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

from leonidas_tools import AdvancedToolProcessor, Secret, ToolSession, tool


@tool(effect="read")
def get_balance(account: str, pin: Annotated[str, Secret]) -> int:
    """Returns the balance of an account.

    Args:
        account: Number of the account.
        pin: The PIN of the user.
    """
    return 1200 if pin == "4711" else 0


@tool(effect="read", timeout_seconds=0.05)
async def ask_the_bank() -> str:
    """Asks the bank, which takes long."""
    await asyncio.sleep(60)
    return "never reached"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"store": {"enabled": True, "url": str(Path(folder) / "kept.db")}}
        tools = AdvancedToolProcessor(tools=[get_balance, ask_the_bank], config=settings)
        async with tools:
            session = ToolSession("ana-monday")
            await tools.execute("get_balance", {"account": "7", "pin": "4711"}, session=session)
            await tools.execute("ask_the_bank", session=session)
            assert tools.store is not None
            for kept in await tools.store.executions(session="ana-monday", newest_first=False):
                print(kept.tool, kept.arguments, kept.status, kept.result)
            for event in await tools.store.replay("ana-monday"):
                print("replay:", event.kind, event.tool)


if __name__ == "__main__":
    asyncio.run(main())
