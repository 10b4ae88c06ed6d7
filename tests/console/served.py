"""A console that is served on a free port of this machine, and tools to watch on it."""

import asyncio
import contextlib
import json
import random
import socket
from urllib.parse import urlsplit

import httpx

from leonidas_tools import ToolContext, ToolError, tool
from leonidas_tools.console import serve_console

TOKEN = "s3cret-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def port_to_come_back_to():
    """Return a free port that no one is given who asks for any: those are above 32767."""
    for port in random.sample(range(20_000, 30_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


class Desk:
    """Tools that wait until the test lets them go, fail, or ask first."""

    def __init__(self):
        self.goes_on = asyncio.Event()
        self.stopped = asyncio.Event()
        self.tries = 0
        self.paid = []

    def tools(self):
        @tool(effect="read")
        async def wait(ctx: ToolContext) -> str:
            """Wait until the desk opens."""
            ctx.progress("halfway", fraction=0.5)
            try:
                await self.goes_on.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return "gone on"

        @tool(effect="once")
        async def flaky() -> str:
            """Fail at first."""
            self.tries += 1
            if self.tries == 1:
                raise ToolError("The line is busy")
            return "through"

        @tool(effect="once", requires_approval=True, secrets=["card"])
        async def pay(to: str, amount: int, card: str) -> str:
            """Pay someone."""
            self.paid.append((to, amount))
            return f"{amount} to {to}, by {card[-4:]}"

        return [wait, flaky, pay]


class Line:
    """A connection of this machine to a console, which the test cuts."""

    def __init__(self, url):
        self._place = urlsplit(url)
        self._open = set()
        self._streaming = set()
        self._hanging = set()

    async def __aenter__(self):
        self._port = port_to_come_back_to()
        self.url = f"http://127.0.0.1:{self._port}"
        await self.restore()
        return self

    async def __aexit__(self, *error):
        await self.break_off()

    async def restore(self):
        """Take connections."""
        self._server = await asyncio.start_server(self._join, "127.0.0.1", self._port)

    async def break_off(self):
        """End all connections and take no more."""
        self._server.close()
        joined = list(self._open)
        self.cut()
        if joined:
            await asyncio.wait(joined)

    def cut(self):
        """End all connections without a word."""
        for each in self._open:
            each.cancel()

    def hang(self):
        """Pass on no more events, without an end; end the other connections."""
        self._hanging |= self._streaming
        for each in self._open - self._streaming:
            each.cancel()

    def _join(self, reader, writer):
        task = asyncio.create_task(self._joined(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _joined(self, reader, writer):
        here = asyncio.current_task()
        writers, passing = [writer], []
        try:
            far_reader, far_writer = await asyncio.open_connection(
                self._place.hostname, self._place.port
            )
            writers.append(far_writer)
            passing = [
                asyncio.create_task(self._passed(reader, far_writer, here)),
                asyncio.create_task(self._passed(far_reader, writer, here)),
            ]
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in passing:
                each.cancel()
            for each in writers:
                each.transport.abort()

    async def _passed(self, reader, writer, connection):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                if data.startswith(b"GET /api/events"):
                    self._streaming.add(connection)
                if connection not in self._hanging:
                    writer.write(data)
                    await writer.drain()


class Served:
    """The console of some tools, on a free port."""

    def __init__(self, tools, *, port=0, **options):
        self.tools = tools
        self._options = {"port": port, **options}
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self):
        listens = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve_console(self.tools, token=TOKEN, on_listening=listens.set_result, **self._options)
        )

        async def stop():
            serving.cancel()
            await asyncio.wait({serving})

        self._stack.push_async_callback(stop)
        await asyncio.wait({serving, listens}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        self.url = listens.result()
        self.client = await self._stack.enter_async_context(
            httpx.AsyncClient(
                base_url=self.url,
                verify=False,  # no TLS on loopback, and its certificates take 25 ms to read
                headers=BEARER,
                timeout=30,
                limits=httpx.Limits(max_keepalive_connections=0),  # the server ends idle ones
            )
        )
        return self

    async def __aexit__(self, *error):
        await self._stack.aclose()

    async def get(self, path, **more):
        answer = await self.client.get(path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @contextlib.asynccontextmanager
    async def events(self, path="/api/events", **headers):
        async with self.client.stream("GET", path, headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield events_in(answer)


async def events_in(answer):
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def until(events, kind):
    async for event in events:
        if event["event"] == kind:
            return event
    raise AssertionError(f"the stream ended without {kind!r}")
