"""What a client may do with the WebSocket of the console, and what it may not."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import sys
from array import array
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from leonidas_tools import ToolRuntime
from leonidas_tools.console import talk
from tests.console.served import BEARER, TOKEN, Served

pytestmark = pytest.mark.asyncio(loop_scope="module")
looped = pytest_asyncio.fixture(loop_scope="module")
FRAME = bytes(640)
PROTOCOL = "leonidas.talk.v1"


class Agent(processor.Processor):
    """Notes what it hears, and says what the test gives it."""

    def __init__(self):
        self.heard = asyncio.Queue()
        self.says = asyncio.Queue()
        self.opened = 0
        self.closed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def open(self):
        self.opened += 1
        try:
            yield self
        finally:
            self.closed.set()

    async def call(self, content):
        async def listen():
            async for part in content:
                self.heard.put_nowait(part)

        listening = processor.create_task(listen())
        try:
            while (part := await self.says.get()) is not None:
                if isinstance(part, Exception):
                    raise part
                yield part
                await asyncio.sleep(0)  # the reader of the stream takes it
                self.says.task_done()
        finally:
            listening.cancel()


@looped
async def agent():
    return Agent()


@looped
async def console(agent):
    async with Served(ToolRuntime(builtin_tools=False), agents=agent.open) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    """Serve one console for the tests that leave nothing behind: each sets its agent."""
    agents = []

    def newest():
        return agents[-1].open()

    async with Served(ToolRuntime(builtin_tools=False), agents=newest) as served:
        yield served, agents


@looped
async def refusing_console(shared, agent):
    console, agents = shared
    agents.append(agent)
    return console


def talking(console, *, headers=BEARER, host=None, conversation=None, **options):
    place = urlsplit(console.url)
    if "sock" not in options:
        options |= {"host": place.hostname, "port": place.port}
    address = f"ws://{host or place.netloc}/api/talk"
    if conversation is not None:
        address += f"?conversation={conversation}"
    return connect(address, additional_headers=headers, proxy=None, **options)


def bearer(token):
    return f"bearer.{base64.urlsafe_b64encode(token.encode()).decode().rstrip('=')}"


async def ready(client, *, resumed=False):
    """Return the id of the conversation."""
    said = json.loads(await client.recv())
    conversation = said.pop("conversation")
    assert said == {"type": "ready", "resumed": resumed}
    return conversation


async def ending(client):
    """Return why the server closes."""
    try:
        async for _ in client:
            pass
    except ConnectionClosed:
        pass
    return client.close_code, client.close_reason


async def test_a_program_talks_with_the_token_as_header_or_as_subprotocol(console, agent):
    async with talking(console) as client:
        await ready(client)
        await client.send(FRAME)
        part = await agent.heard.get()
        assert (part.part.inline_data.data, part.substream_name) == (FRAME, "realtime")
    agent.closed.clear()
    offered = [PROTOCOL, bearer(TOKEN)]
    async with talking(console, headers={}, subprotocols=offered) as client:
        assert client.subprotocol == PROTOCOL  # never the token
        await ready(client)
        await client.send(json.dumps({"type": "text", "text": "hello"}))
        assert (await agent.heard.get()).text == "hello"


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"headers": {}}, 401),
        ({"headers": {"Authorization": "Bearer wrong"}}, 401),
        ({"headers": {}, "subprotocols": [PROTOCOL]}, 401),
        ({"headers": {}, "subprotocols": [PROTOCOL, bearer("wrong")]}, 401),
        ({"headers": {}, "subprotocols": [PROTOCOL, "bearer."]}, 401),
        ({"headers": {}, "subprotocols": [PROTOCOL, "bearer.!"]}, 401),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 421),
    ],
)
async def test_a_client_without_permission_opens_no_conversation(
    refusing_console, agent, options, status
):
    with pytest.raises(InvalidStatus) as refused:
        async with talking(refusing_console, **options):
            pass
    assert refused.value.response.status_code == status
    assert agent.opened == 0


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (bytes(6402), 1008),
        (bytes(641), 1008),
        (b"", 1008),
        (bytes(20_000), 1009),
        ("x" * 20_000, 1009),
        ("not JSON", 1003),
        (json.dumps({"type": "text", "text": "x" * 4001}), 1003),
        (json.dumps({"type": "text", "text": ""}), 1003),
        (json.dumps({"type": "answer", "question": "q", "approve": True}), 1003),
        (json.dumps({"type": "run", "text": ""}), 1003),
        (json.dumps({"type": "text", "text": "", "role": "model"}), 1003),
    ],
)
async def test_a_message_that_is_too_large_or_malformed_ends_the_conversation(
    refusing_console, agent, message, code
):
    async with talking(refusing_console) as client:
        await ready(client)
        await client.send(message)
        assert (await ending(client))[0] == code
    await agent.closed.wait()
    assert agent.heard.empty()


async def test_a_flood_of_frames_ends_the_conversation(console, agent):
    async with talking(console) as client:
        await ready(client)

        async def flood():
            with contextlib.suppress(ConnectionClosed):
                while True:
                    await client.send(FRAME)

        flooding = asyncio.create_task(flood())
        code, reason = await ending(client)
        assert (code, "Too many messages" in reason) == (1008, True)
        await flooding
    await agent.closed.wait()


async def test_a_flood_of_texts_ends_the_conversation(console, agent):
    async with talking(console) as client:
        await ready(client)
        for _ in range(200):
            await client.send(json.dumps({"type": "text", "text": "hello"}))
        assert (await ending(client))[0] == 1008
    await agent.closed.wait()
    assert agent.heard.qsize() < 200


async def test_a_flood_of_pings_ends_the_conversation(console, agent):
    async with talking(console) as client:
        await ready(client)
        client.transport.write(b"\x89\x80\0\0\0\0" * 10_000)
        code, reason = await ending(client)
        assert (code, "Too many messages" in reason) == (1008, True)
    await agent.closed.wait()


async def test_the_ninth_conversation_has_to_come_back_later(console):
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(8):
            await ready(await stack.enter_async_context(talking(console)))
        ninth = await stack.enter_async_context(talking(console))
        assert (await ending(ninth))[0] == 1013


CHUNKS = 6000
CHUNK_BYTES = 4800


@contextlib.asynccontextmanager
async def talking_without_reading(console):
    """Join a client that keeps little of what it does not read."""
    place = urlsplit(console.url)
    sock = socket.create_connection((place.hostname, place.port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    async with talking(console, max_queue=4, sock=sock) as client:
        yield client


async def says_much(agent):
    """Let the agent say more than all buffers on the way take, while the client does not read."""
    for number in range(CHUNKS):
        sound = number.to_bytes(4, "big") * (CHUNK_BYTES // 4)
        agent.says.put_nowait(ProcessorPart(sound, mimetype="audio/pcm;rate=24000"))
    await agent.says.join()


async def chunks_until_message(client):
    heard = []
    async for message in client:
        if isinstance(message, str):
            return heard, json.loads(message)["type"]
        heard.append(int.from_bytes(message[:4], "big"))
    raise AssertionError("the conversation ended without a message")


async def test_a_slow_reader_loses_the_oldest_sound_and_gets_the_newest(console, agent):
    async with talking_without_reading(console) as client:
        await ready(client)
        await says_much(agent)
        agent.says.put_nowait(ProcessorPart("", metadata={"turn_complete": True}))
        heard, message = await chunks_until_message(client)
        assert message == "turn_complete"
        assert heard == sorted(set(heard))
        assert heard[-1] == CHUNKS - 1
        assert len(heard) < CHUNKS


async def test_an_interruption_drops_the_sound_that_waits(console, agent):
    async with talking_without_reading(console) as client:
        await ready(client)
        await says_much(agent)
        agent.says.put_nowait(ProcessorPart("", metadata={"interrupted": True}))
        await agent.says.join()
        heard, message = await chunks_until_message(client)
        assert message == "interrupted"
        assert CHUNKS - 1 not in heard


async def test_a_client_that_was_cut_off_resumes_its_conversation(console, agent):
    async with talking(console) as client:
        conversation = await ready(client)
        await client.send(FRAME)
        assert (await agent.heard.get()).part.inline_data.data == FRAME
        client.transport.abort()
        paused = await agent.heard.get()
        assert paused.metadata == {"audio_stream_end": True}
    agent.says.put_nowait(ProcessorPart(FRAME, mimetype="audio/pcm;rate=24000"))
    agent.says.put_nowait(ProcessorPart("", metadata={"turn_complete": True}))
    await agent.says.join()
    async with talking(console, conversation=conversation) as client:
        assert await ready(client, resumed=True) == conversation
        assert await client.recv() == FRAME
        assert json.loads(await client.recv()) == {"type": "turn_complete"}
        await client.send(json.dumps({"type": "text", "text": "hello"}))
        assert (await agent.heard.get()).text == "hello"
    await agent.closed.wait()
    assert agent.opened == 1


async def test_a_client_that_comes_back_takes_the_place_of_a_connection_that_hangs(console, agent):
    async with talking(console) as hanging:
        conversation = await ready(hanging)
        async with talking(console, conversation=conversation) as client:
            await ready(client, resumed=True)
            assert (await ending(hanging))[0] == 1008
            agent.says.put_nowait(ProcessorPart(FRAME, mimetype="audio/pcm;rate=24000"))
            assert await client.recv() == FRAME
    assert agent.opened == 1


async def test_a_conversation_ends_when_its_client_does_not_come_back(console, agent, monkeypatch):
    monkeypatch.setattr(talk, "_KEPT_SECONDS", 0.0)
    async with talking(console) as client:
        conversation = await ready(client)
        client.transport.abort()
        await agent.closed.wait()
    async with talking(console, conversation=conversation) as client:
        assert await ready(client) != conversation
    assert agent.opened == 2


async def test_a_failing_agent_ends_the_conversation_without_telling_its_secrets(
    console, agent, caplog
):
    async with talking(console) as client:
        await ready(client)
        agent.says.put_nowait(RuntimeError("key 4711"))
        code, reason = await ending(client)
        assert code == 1011
        assert "4711" not in reason
    assert "The agent of a conversation has failed" in caplog.text


async def test_an_agent_that_ends_ends_the_conversation(console, agent):
    async with talking(console) as client:
        await ready(client)
        agent.says.put_nowait(None)
        assert (await ending(client))[0] == 1000


async def test_a_console_without_an_agent_says_so():
    async with Served(ToolRuntime(builtin_tools=False)) as console:
        assert await console.get("/api/talk") == {"available": False}
        async with talking(console) as client:
            assert (await ending(client))[0] == 1008


async def test_the_agent_is_closed_when_the_console_closes(agent):
    async with Served(ToolRuntime(builtin_tools=False), agents=agent.open) as console:
        client = await talking(console)
        await ready(client)
    assert agent.closed.is_set()
    assert (await ending(client))[0] in {1001, 1012}
    await client.close()


@pytest.mark.slow
async def test_the_program_serves_a_page_that_talks_without_a_key(tmp_path):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GEMINI_", "GOOGLE_"))
    }
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "leonidas_tools", "console", "--http", "0"),
        cwd=tmp_path,
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        told = ""
        while "#token=" not in told:
            line = await program.stderr.readline()
            assert line, "the program ended"
            told = line.decode()
        url, token = told.split()[-1].split("/#token=")
        address = f"{url.replace('http', 'ws', 1)}/api/talk"
        offered = [PROTOCOL, bearer(token)]
        async with connect(address, subprotocols=offered, proxy=None) as client:
            await ready(client)
            await client.send(json.dumps({"type": "text", "text": "hello"}))
            sound = bytearray()
            while isinstance(message := await client.recv(), bytes):
                sound += message
            assert json.loads(message) == {"type": "turn_complete"}
            assert max(array("h", bytes(sound))) > 500
    finally:
        program.send_signal(signal.SIGTERM)
        await program.communicate()
