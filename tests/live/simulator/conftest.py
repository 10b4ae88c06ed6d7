"""Clients of the simulator: the real SDK, and raw websockets for what the SDK would never send."""

import contextlib
import json
import ssl
import threading

import pytest
import websockets
from google import genai
from google.genai import types

PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"


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
