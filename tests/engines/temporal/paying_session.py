"""A session that pays orders and keeps what it has asked and been answered, until it is told.

Started again, it asks first what has no answer: as a session does that is resumed elsewhere.
"""

import asyncio
import itertools
import os
import random
import sys
from pathlib import Path

from leonidas_tools import ToolError, ToolSession
from leonidas_tools.calls.call import ToolCall
from leonidas_tools.engines.base import Code, EngineCall, EngineLimits, TemporalConnection
from leonidas_tools.engines.temporal import TemporalEngine

SIDE_BY_SIDE = 4
PATIENCE_SECONDS = 600.0


class Session:
    def __init__(self, room, address, heartbeat_seconds):
        self.room = room
        self.engine = TemporalEngine(
            TemporalConnection(
                address=address,
                begin_seconds=PATIENCE_SECONDS,
                connect_seconds=60.0,
                heartbeat_seconds=heartbeat_seconds,
            )
        )

    async def run(self):
        asked, answered = lines(self.room / "asked"), lines(self.room / "answers")
        done = {line.split()[0] for line in answered}
        orders = itertools.chain(
            [line for line in asked if line.split()[0] not in done],
            (f"{number} {random.random():.3f}" for number in itertools.count(len(asked))),
        )
        async with asyncio.TaskGroup() as group:
            for _ in range(SIDE_BY_SIDE):
                group.create_task(self.pay(orders, set(asked)))

    async def pay(self, orders, asked):
        for line in orders:
            if line not in asked:
                if (self.room / "enough").exists():
                    return
                note(self.room / "asked", line)
            number, seconds = line.split()
            call = ToolCall(
                name="pay",
                arguments={"order": number, "seconds": float(seconds)},
                id=number,
                session=ToolSession("ana"),
            )
            work = EngineCall(
                call=call,
                code=Code(target=by_name, bind=by_name),
                limits=EngineLimits(once=True, max_bytes=1000, seconds=PATIENCE_SECONDS),
            )
            try:
                answer = (await self.engine.run(work)).status
            except ToolError as error:
                answer = error.status
            note(self.room / "answers", f"{number} {answer}")


def by_name(*_):
    raise AssertionError("the worker has the tool")


def lines(file):
    """Return the whole lines of a file: the last may be cut short by a kill."""
    text = file.read_text() if file.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def note(file, line):
    with file.open("ab", buffering=0) as opened:
        opened.write(f"{line}\n".encode())


if __name__ == "__main__":
    asyncio.run(Session(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])).run())
    os._exit(0)  # else temporalio may crash the interpreter as it ends: temporalio/sdk-python#300
