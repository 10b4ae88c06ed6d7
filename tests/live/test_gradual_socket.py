"""The WebSocket to the model, and what a server can do to the event loop by it."""

import asyncio
import contextlib
import json
from collections import Counter
from types import SimpleNamespace

import pytest
from genai_processors.content_api import ProcessorPart
from google.genai import Client, errors, types
from google.genai.live import AsyncSession
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed
from websockets.protocol import CLIENT, Protocol

from leonidas_tools.live import gradual_socket, part_queue
from leonidas_tools.live.connection import Connection
from leonidas_tools.live.gradual_socket import GradualSocket
from leonidas_tools.live.part_queue import PartQueue
from leonidas_tools.live.server_messages import parts_of

PING, EMPTY = b"\x89\x00", b"\x81\x00"
LONG_PING = b"\x89\x7d" + bytes(125)


@contextlib.asynccontextmanager
async def connected_to(play, **options):
    """Yields the connection of a client to a server that plays this."""
    async with (
        serve(play, "127.0.0.1", 0, compression=None, close_timeout=0.1) as server,
        connect(
            f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            create_connection=GradualSocket,
            compression=None,
            proxy=None,
            close_timeout=0.1,
            **options,
        ) as socket,
    ):
        yield socket


@contextlib.asynccontextmanager
async def frames_in_a_turn(monkeypatch):
    """Yields a counter of the frames that a client takes in, by the turn of the loop."""
    counts, turn = Counter(), 0
    takes_in = Protocol.recv_frame

    def counted(self, frame):
        counts[turn] += self.side is CLIENT
        return takes_in(self, frame)

    async def watch():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Protocol, "recv_frame", counted)
    watching = asyncio.create_task(watch())
    try:
        yield counts
    finally:
        watching.cancel()


@pytest.mark.parametrize("frame", [PING, EMPTY])
async def test_many_small_frames_leave_the_event_loop_its_turns(monkeypatch, frame):
    async def play(socket):
        socket.transport.write(frame * 20_000)
        await socket.send("over")
        await socket.wait_closed()

    async with frames_in_a_turn(monkeypatch) as counts, connected_to(play) as socket:
        while await socket.recv() != "over":
            pass
    assert counts.total() > 20_000
    assert max(counts.values()) <= 1_100


async def test_no_more_messages_are_taken_in_than_wait_for_their_reader(monkeypatch):
    async def play(socket):
        socket.transport.write(EMPTY * 20_000)
        await socket.wait_closed()

    async with frames_in_a_turn(monkeypatch) as counts, connected_to(play) as socket:
        await socket.recv()
        for _ in range(100):
            await asyncio.sleep(0)
        assert counts.total() <= 1_100


async def test_all_messages_before_a_close_are_read():
    async def play(socket):
        for number in range(500):
            await socket.send(f"{number} {'x' * 500}")

    async with connected_to(play) as socket:
        read = [message async for message in socket]
    assert len(read) == 500


async def test_a_long_message_is_read_whole():
    async def play(socket):
        await socket.send(bytes(900_000))
        await socket.wait_closed()

    async with connected_to(play) as socket:
        assert await socket.recv() == bytes(900_000)


async def test_a_server_that_has_its_pings_answered_but_reads_nothing_is_left(monkeypatch):
    monkeypatch.setattr(gradual_socket, "_MAX_UNSENT_BYTES", 100_000)

    async def play(socket):
        socket.transport.pause_reading()
        with contextlib.suppress(ConnectionError):
            while not socket.transport.is_closing():
                socket.transport.write(LONG_PING * 1000)
                await asyncio.sleep(0)
        socket.transport.resume_reading()

    async with connected_to(play) as socket:
        with pytest.raises(ConnectionClosed):
            await socket.recv()


async def reads_nothing(socket):
    socket.transport.pause_reading()
    with contextlib.suppress(ConnectionClosed):
        await socket.send("over")
        await socket.wait_closed()


async def sent_without_end(socket):
    while True:
        await socket.send(bytes(1_000_000))


async def test_a_server_that_reads_nothing_is_left():
    async with connected_to(reads_nothing, ping_timeout=0.1) as socket:
        with pytest.raises(ConnectionClosed):
            await sent_without_end(socket)


async def test_a_server_that_reads_almost_nothing_is_left(monkeypatch):
    monkeypatch.setattr(gradual_socket, "_FEWEST_BYTES_PER_SECOND", 100_000_000)
    is_left = asyncio.Event()

    async def reads_a_little(socket):
        socket.transport.pause_reading()
        unread = socket.transport.get_extra_info("socket")._sock
        while not is_left.is_set():
            with contextlib.suppress(BlockingIOError):
                unread.recv(100_000)
            await asyncio.sleep(0.01)
        socket.transport.resume_reading()

    async with connected_to(reads_a_little, ping_timeout=0.1) as socket:
        with pytest.raises(ConnectionClosed):
            await sent_without_end(socket)
        is_left.set()


async def test_a_connection_to_a_server_that_reads_nothing_can_be_closed():
    async with connected_to(reads_nothing, ping_timeout=None) as socket:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sent_without_end(socket), 0.1)
        await socket.close()


async def test_a_reply_to_the_setup_of_too_many_values_is_not_parsed():
    async def play(socket):
        await socket.send("[" + "[]," * 30_000 + "[]]")
        await socket.wait_closed()

    async with connected_to(play) as socket:
        with pytest.raises(OSError, match="too many values"):
            await socket.recv(decode=False)


async def test_a_message_is_taken_at_once_unless_another_waits_to_be_read():
    async def play(socket):
        assert await socket.recv() == "begin"
        for message in ("a1", "b2", "a3", "a" * 20_000):
            await socket.send(message)
        await socket.send(["a", "5"])  # in fragments
        assert await socket.recv() == "read"
        await socket.send("a6")
        await socket.wait_closed()

    taken = []

    def take(message):
        is_wanted = message.startswith(b"a")
        if is_wanted:
            taken.append(message)
        return is_wanted

    async with connected_to(play) as socket:
        socket.take = take
        await socket.send("begin")
        read = [await socket.recv() for _ in range(4)]
        assert (taken, read) == ([b"a1"], ["b2", "a3", "a" * 20_000, "a5"])
        await socket.send("read")
        while len(taken) < 2:
            await asyncio.sleep(0)
        await socket.close()
        assert taken == [b"a1", b"a6"]


SOUND = {"inlineData": {"mimeType": "audio/", "data": ""}}


@pytest.mark.parametrize("others", [[], [{"text": "Hm."}]], ids=["sound", "sound and text"])
async def test_messages_of_many_parts_do_not_outrun_a_listener_that_reads(others):
    content = {"modelTurn": {"parts": [*[SOUND] * 250, *others]}}
    message = json.dumps({"serverContent": content}, separators=(",", ":"))
    assert len(message) <= 16_384
    out, given, read, most_waiting = PartQueue(), 0, 0, 0

    async def play(socket):
        for _ in range(60):
            await socket.send(message)

    async def listen():
        nonlocal read
        async for _ in out.parts():
            read += 1

    def put(parts):
        nonlocal given, most_waiting
        for part in parts:
            out.put(part)
            given += 1
        most_waiting = max(most_waiting, given - read)

    receiver = SimpleNamespace(receive=lambda message: put(parts_of(message)), receive_audio=put)
    listening = asyncio.create_task(listen())
    async with connected_to(play) as socket:
        client = Client(api_key="simulated")._api_client
        with pytest.raises(errors.APIError):
            await Connection(AsyncSession(client, socket)).receive(receiver)
    out.close()
    await listening
    assert read == 60 * (250 + len(others))
    assert most_waiting < 1_000


def barge_in():
    return ProcessorPart("", metadata={"interrupted": True})


def test_a_server_that_interrupts_without_end_has_each_part_looked_at_once(monkeypatch):
    looked_at = []
    is_speech = part_queue.is_speech
    monkeypatch.setattr(part_queue, "is_speech", lambda p: looked_at.append(p) or is_speech(p))
    out = PartQueue()
    for _ in range(200):
        out.put(barge_in())
        out.put(ProcessorPart(b"sound", mimetype="audio/pcm"))
    assert len(looked_at) < 400


@given(st.lists(st.sampled_from(["sound", "text", "barge-in", "read"])))
def test_a_barge_in_drops_all_speech_that_waits_and_nothing_else(steps):
    out, waiting = PartQueue(), []
    for step in steps:
        if step == "read" and waiting:
            assert out._parts.popleft() is waiting.pop(0)
        elif step != "read":
            parts = {
                "sound": ProcessorPart(b"sound", mimetype="audio/pcm"),
                "text": ProcessorPart("text"),
                "barge-in": barge_in(),
            }
            if step == "barge-in":
                waiting = [part for part in waiting if not part_queue.is_speech(part)]
            out.put(parts[step])
            waiting.append(parts[step])
    assert [out._parts.popleft() for _ in range(len(out._parts))] == waiting


@pytest.mark.parametrize(
    "code",
    [{"executableCode": {"code": "x" * 1000}}, {"codeExecutionResult": {"output": "x" * 1000}}],
)
def test_code_that_a_listener_leaves_unread_is_dropped_before_it_fills_the_memory(
    monkeypatch, code
):
    monkeypatch.setattr(part_queue, "_MAX_BYTES", 100_000)
    content = {"serverContent": {"modelTurn": {"parts": [code]}}}
    out = PartQueue()
    for _ in range(1_000):
        for part in parts_of(types.LiveServerMessage.model_validate(content)):
            out.put(part)
    assert len(out._parts) < 100
