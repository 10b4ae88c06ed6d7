"""Which openings of the store, by whatever process, have not ended."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from sqlalchemy import select

from leonidas_tools.store.tables import runs

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

HEARTBEAT_SECONDS = 10.0
"""How often a process says that it lives, while calls are under way or questions are open."""
_SILENT_SECONDS = 4 * HEARTBEAT_SECONDS


async def living_runs(connection: AsyncConnection) -> list[str]:
    """The openings of the store, by whatever process, that have not ended."""
    now, host = time.time(), socket.gethostname()
    query = select(runs.c.id, runs.c.host, runs.c.process).where(
        runs.c.ended.is_(None), runs.c.seen >= now - _SILENT_SECONDS
    )
    found = await connection.execute(query)
    return [row.id for row in found if row.host != host or _may_live(row.process)]


def _may_live(process: int) -> bool:
    """Whether there is such a process on this machine, where that can be told."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
