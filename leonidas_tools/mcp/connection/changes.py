"""The stream on which newer servers say that their tools have changed."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import mcp_types
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError

from leonidas_tools.mcp.connection.reconnect import delay_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.client.client import Client


async def keep_subscribed(client: Client, on_end: Callable[[str], None]) -> None:
    """Asks for news of the tools; they come to the client's message handler, as old ones do.

    Args:
        client: Is connected to the server.
        on_end: Called with the reason each time the stream has ended and news may be missed.
    """
    for attempt in itertools.count():
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    pass
        except SubscriptionLost:
            pass
        except MCPError as error:
            if error.code == mcp_types.METHOD_NOT_FOUND:
                return
        on_end("the stream of changes has ended")
        await asyncio.sleep(delay_seconds(attempt))
