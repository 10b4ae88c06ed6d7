"""A gateway on a free port of this machine, whose model is simulated, and clients of it."""

import asyncio
import base64
import contextlib
import json
import math

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.gateway import GatewayLimits, make_token, serve_gateway
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.simulator import LiveSimulator, Scenario

SECRET = "of the tests: 0123456789abcdef0123456789abcdef"
PROTOCOL = "leonidas.gateway.v1"


class Served:
    """A gateway whose model plays the same steps in each conversation, or one after another."""

    def __init__(self, steps=(), *, connections=(), tools=(), limits=None, config=None, **options):
        self.tools = AdvancedToolProcessor(tools=list(tools), config=config, builtin_tools=False)
        scenario = Scenario(steps, connections=connections)
        self.simulator = LiveSimulator(scenario, speed=math.inf, strict=False)
        self.limits = limits or GatewayLimits()
        self._options = options
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self):
        self._stack.callback(self.simulator.stop)
        self.simulator.start()
        live = GeminiLiveProcessor(
            "simulated",
            api_key="simulated",
            http_options=self.simulator.http_options(),
            tools=self.tools,
        )
        listens = asyncio.get_running_loop().create_future()
        self.serving = asyncio.create_task(
            serve_gateway(
                self.tools,
                live,
                secret=SECRET,
                port=0,
                limits=self.limits,
                on_listening=listens.set_result,
                **self._options,
            )
        )
        self._stack.push_async_callback(self._stop)
        await asyncio.wait({self.serving, listens}, return_when=asyncio.FIRST_COMPLETED)
        if self.serving.done():
            self.serving.result()
        self.url = listens.result()
        self.http = await self._stack.enter_async_context(
            httpx.AsyncClient(
                base_url=self.url,
                verify=False,  # no TLS on loopback, and its certificates take 25 ms to read
                timeout=30,
                limits=httpx.Limits(max_keepalive_connections=0),  # the server ends idle ones
            )
        )
        return self

    async def _stop(self):
        # A second time ends the draining, but would also interrupt the store as it closes.
        patience_seconds = 0.1 if self.tools.store is None else 60
        while not self.serving.done():
            self.serving.cancel()
            await asyncio.wait({self.serving}, timeout=patience_seconds)

    async def __aexit__(self, *error):
        await self._stack.aclose()

    def opened(self, token, **options):
        """Return a WebSocket, not open yet."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        headers |= options.pop("headers", {})
        address = self.url.replace("http://", "ws://") + options.pop("path", "/conversation")
        return connect(
            address,
            additional_headers=headers,
            proxy=None,
            open_timeout=None,
            close_timeout=30,
            **options,
        )

    @contextlib.asynccontextmanager
    async def client(self, user="ana", *, start=None, **options):
        """Yield a client whose conversation has begun."""
        async with self.opened(make_token(SECRET, user), **options) as websocket:
            client = Client(websocket)
            await client.say("start", **(start or {}))
            client.ready = await client.until("ready")
            yield client

    async def begin(self, user):
        """Return a client whose conversation has begun, and lasts until the gateway ends."""
        return await self._stack.enter_async_context(self.client(user))

    async def code_for(self, user):
        """Return the code with which a further conversation of a user is closed."""
        async with self.opened(make_token(SECRET, user)) as websocket:
            return await Client(websocket).closed()


class Client:
    """A client of the gateway, which notes what it gets."""

    def __init__(self, websocket):
        self.websocket = websocket
        self.sound = b""
        self.messages = []

    async def say(self, kind, **fields):
        await self.websocket.send(json.dumps({"type": kind, **fields}))

    async def until(self, kind, **fields):
        """Return the next message of that kind with these fields."""
        async for received in self.websocket:
            if isinstance(received, bytes):
                self.sound += received
                continue
            message = json.loads(received)
            self.messages.append(message)
            if message["type"] == kind and fields.items() <= message.items():
                return message
        raise AssertionError(f"the gateway closed without {kind!r}: {self.messages}")

    async def closed(self):
        """Wait until the gateway has closed; return the code."""
        with contextlib.suppress(ConnectionClosed):
            async for received in self.websocket:
                if isinstance(received, str):
                    self.messages.append(json.loads(received))
        return self.websocket.close_code


def subprotocols(token):
    """Return what a web page names in place of a header."""
    return [PROTOCOL, "bearer." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")]
