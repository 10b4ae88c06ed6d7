"""The bridge of `examples/phone_bridge.py`, between a phone provider and a gateway."""

import base64
import contextlib
import importlib.util
import json
from functools import partial
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

from leonidas_tools.simulator import Say, TurnComplete, WaitForInput
from tests.gateway.served import SECRET, Served

FILE = Path(__file__).parents[2] / "examples/phone_bridge.py"
TALK = (WaitForInput("audio"), Say("Goodbye.", audio_seconds=0.5), TurnComplete())
SOUND = {"event": "media", "media": {"payload": base64.b64encode(b"\xff" * 160).decode()}}
START = {"event": "start", "streamSid": "MZ1", "start": {"callSid": "CA1"}}


@pytest.fixture
def bridge(monkeypatch):
    spec = importlib.util.spec_from_file_location("phone_bridge", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SECRET", SECRET)
    return module


@contextlib.asynccontextmanager
async def called(bridge, served, *, signature=None):
    """Yield the WebSocket of a call, as the provider has it."""
    calling = partial(bridge.bridge, gateway_url=served.url.replace("http", "ws", 1))
    headers = {"X-Twilio-Signature": signature or bridge.SIGNATURE}
    async with serve(calling, "127.0.0.1", 0, process_request=bridge.admit) as calls:
        address = f"ws://127.0.0.1:{calls.sockets[0].getsockname()[1]}/calls"
        async with connect(
            address, additional_headers=headers, proxy=None, open_timeout=None
        ) as call:
            yield call


async def say(call, event):
    await call.send(json.dumps(event))


async def heard_until(call, seconds):
    sound = b""
    while len(sound) < seconds * 8000:
        event = json.loads(await call.recv())
        assert (event["event"], event["streamSid"]) == ("media", "MZ1")
        sound += base64.b64decode(event["media"]["payload"])
    return sound


async def test_a_call_is_hung_up_only_after_the_provider_has_played_the_last_words(bridge):
    async with Served(TALK) as served, called(bridge, served) as call:
        await say(call, {"event": "connected", "protocol": "Call"})
        await say(call, START)
        await say(call, SOUND)
        assert len(await heard_until(call, 0.5)) == 4000
        served.serving.cancel()
        mark = json.loads(await call.recv())
        assert mark == {"event": "mark", "streamSid": "MZ1", "mark": {"name": "end"}}
        await say(call, SOUND)  # the caller is not silent meanwhile
        await (await call.ping())
        await say(call, mark)
        with pytest.raises(ConnectionClosed):
            await call.recv()
        assert call.close_code == 1000


async def test_a_caller_who_hangs_up_ends_the_conversation(bridge):
    async with Served(TALK) as served, called(bridge, served) as call:
        await say(call, START)
        await say(call, SOUND)
        await heard_until(call, 0.5)
        await say(call, {"event": "stop", "streamSid": "MZ1"})
        with contextlib.suppress(ConnectionClosed):
            while True:
                await call.recv()
        assert call.close_code == 1000


async def test_who_is_not_the_provider_reaches_no_conversation(bridge):
    async with Served(TALK) as served:
        with pytest.raises(InvalidStatus) as refused:
            async with called(bridge, served, signature="bm90IHRoZSBwcm92aWRlcg=="):
                pass
        assert refused.value.response.status_code == 403
        assert served.simulator.connections == ()
