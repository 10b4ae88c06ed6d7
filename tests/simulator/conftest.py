"""Clients of the simulator: the real SDK, and raw websockets for what the SDK would never send."""

import asyncio
import contextlib
import json
import ssl
import threading

import pytest
import websockets
from google import genai
from google.genai import errors, types

TOOLS = {  # by name: what the tool answers
    "get_current_time": {"datetime": "2030-01-01T09:00:00+09:00"},
    "get_weather": {"sky": "sunny", "degrees": 21},
    "roll_dice": {"total": 4},
    "search_flights": {"cheapest": 640},
    "think": "done",
    "change_state": "done",
    "set_speech_rate": "done",
    "get-sum": "42",
    "echo": "hello",
    "get-tiny-image": "image",
    "trigger-long-running-operation": "done",
}
SLOW = "search_flights"
SLOW_SECONDS = 0.3
BEHAVIORS = {  # by generation: what this client says of search_flights, and of the others
    None: ("NON_BLOCKING", None),
    "2.5": ("NON_BLOCKING", None),
    "3.8-live": ("NON_BLOCKING", "BLOCKING"),
}
PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"


def thinking(simulator):
    """The lowest level, where the simulated model wants one."""
    return {"thinking_level": "LOW"} if simulator.quirks.thinking_levels else None


def declared(*names, behavior=None):
    """Declarations of functions without parameters."""
    functions = [types.FunctionDeclaration(name=name, behavior=behavior) for name in names]
    return [types.Tool(function_declarations=functions)]


@contextlib.asynccontextmanager
async def live(simulator, *tools, behavior=None, **config):
    """A session of the real client."""
    client = genai.Client(api_key="x", http_options=simulator.http_options())
    config = {
        "response_modalities": ["AUDIO"],
        "tools": declared(*tools, behavior=behavior),
        "thinking_config": thinking(simulator),
    } | config
    async with client.aio.live.connect(model="gemini-live-x", config=config) as session:
        yield session


async def answer(session, call, response=None):
    """Answers one call."""
    await session.send_tool_response(
        function_responses=types.FunctionResponse(
            id=call.id, name=call.name, response=response or {"status": "ok", "result": 1}
        )
    )


async def answer_all(session):
    """Answers every call until the model's turn ends; returns the messages."""
    messages = []
    async for message in session.receive():
        messages.append(message)
        for call in (message.tool_call and message.tool_call.function_calls) or ():
            await answer(session, call)
    return messages


class ModelClient:
    """A client that does what the protocol wants: the proof that a scenario can be played."""

    def __init__(self, simulator):
        self.simulator = simulator
        self.generation = simulator.scenario.generation
        self.handle = None
        self.session = None
        self.connected = asyncio.Event()
        self.running = {}
        self.seen = set()

    async def play(self):
        """Converses until the scenario has ended; returns how."""
        async with asyncio.TaskGroup() as tasks:
            conversation = tasks.create_task(self.converse())
            outcome = await self.simulator.finished()
            conversation.cancel()
        return outcome

    async def converse(self):
        """Stays, on as many connections as that takes."""
        options = self.simulator.http_options()
        # With a full queue the client would not read the answer to its closing frame.
        options.async_client_args["max_queue"] = None
        client = genai.Client(
            vertexai=(self.generation or "").startswith("vertex"), api_key="x", http_options=options
        )
        async with asyncio.TaskGroup() as tasks:
            while True:
                with contextlib.suppress(errors.APIError, OSError):
                    await self.connect(client, tasks)
                await asyncio.sleep(0.01)

    async def connect(self, client, tasks):
        config = {
            "response_modalities": ["AUDIO"],
            "tools": self.tools(),
            "session_resumption": types.SessionResumptionConfig(handle=self.handle),
            "thinking_config": thinking(self.simulator),
        }
        async with client.aio.live.connect(model="gemini-live-x", config=config) as session:
            self.session = session
            if lost := self.simulator.connections[-1].lost_calls:
                await session.send_tool_response(
                    function_responses=[
                        types.FunctionResponse(id=each, name=SLOW, response={"error": "lost"})
                        for each in lost
                    ]
                )
            self.connected.set()
            try:
                await self.follow(session, tasks)
            finally:
                self.connected.clear()
                self.session = None

    def tools(self):
        slow, other = BEHAVIORS.get(self.generation, (None, None))
        functions = [
            types.FunctionDeclaration(name=name, behavior=slow if name == SLOW else other)
            for name in TOOLS
        ]
        return [types.Tool(function_declarations=functions)]

    async def follow(self, session, tasks):
        """Does what the server's messages ask for, until a goAway."""
        while True:
            async for message in session.receive():
                if (update := message.session_resumption_update) and update.resumable:
                    self.handle = update.new_handle
                for call in calls_in(message):
                    if call.id is None or call.id not in self.seen:
                        self.seen.add(call.id)
                        task = tasks.create_task(self.run(call, session))
                        self.running[call.id or task] = task
                if cancellation := message.tool_call_cancellation:
                    for call_id in cancellation.ids:
                        self.running[call_id].cancel()
                if message.go_away:
                    return

    async def run(self, call, session):
        if call.name == SLOW:
            await asyncio.sleep(SLOW_SECONDS)
        if call.name == SLOW and self.session is not session:
            await self.connected.wait()
            await self.session.send_realtime_input(text=f"{call.name}: {TOOLS[call.name]}")
            return
        quiet = call.name == SLOW and self.generation in BEHAVIORS
        response = types.FunctionResponse(
            id=call.id,
            name=call.name,
            response={"status": "ok", "result": TOOLS.get(call.name)},
            scheduling="WHEN_IDLE" if quiet else None,
        )
        await session.send_tool_response(function_responses=response)


def calls_in(message):
    """The calls in a message, whichever way they come."""
    content = message.server_content
    parts = (content and content.model_turn and content.model_turn.parts) or ()
    calls = [part.function_call for part in parts if part.function_call]
    return calls + list((message.tool_call and message.tool_call.function_calls) or ())


class RawClient:
    """A client that sends what it is told to."""

    def __init__(self, websocket):
        self.websocket = websocket

    async def send(self, message):
        await self.websocket.send(message if isinstance(message, str) else json.dumps(message))

    async def receive(self):
        return json.loads(await self.websocket.recv())

    async def set_up(self, *tools):
        functions = [{"name": name} for name in tools]
        setup = {"model": "models/x", "tools": [{"functionDeclarations": functions}]}
        await self.send({"setup": setup})
        assert await self.receive() == {"setupComplete": {}}

    async def closing(self):
        """The code and the reason that the server closes with."""
        await self.websocket.wait_closed()
        return self.websocket.close_code, self.websocket.close_reason


@contextlib.asynccontextmanager
async def raw(simulator, path=PATH):
    """A raw connection."""
    uri = simulator.base_url.replace("https", "wss") + path
    context = ssl.create_default_context(cafile=simulator.environment()["SSL_CERT_FILE"])
    async with websockets.connect(uri, ssl=context, proxy=None) as websocket:
        yield RawClient(websocket)


@pytest.fixture
def connect():
    return live


@pytest.fixture
def model_client():
    return ModelClient


@pytest.fixture
def connect_raw():
    return raw


@pytest.fixture
def reply():
    return answer


@pytest.fixture
def reply_to_all():
    return answer_all


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) - before == set()
