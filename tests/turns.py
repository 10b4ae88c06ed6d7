"""How much the HTTP parser does in one turn of the event loop."""

import asyncio
import contextlib
from collections import Counter

import h11


@contextlib.asynccontextmanager
async def parsed_in_a_turn(monkeypatch):
    """Yield a counter of the parsed events of HTTP, by the turn of the loop."""
    counts, turn = Counter(), 0
    parsed = h11.Connection.next_event

    def counted(connection):
        counts[turn] += 1
        return parsed(connection)

    async def watch():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(h11.Connection, "next_event", counted)
    watching = asyncio.create_task(watch())
    try:
        yield counts
    finally:
        watching.cancel()


@contextlib.asynccontextmanager
async def answering(data):
    """Yield the port of a server on loopback that sends these bytes as its response."""

    async def answer(reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
