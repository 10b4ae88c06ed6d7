"""Phone calls: a bridge between a phone provider and the gateway (extra `serve`).

The provider opens a WebSocket for each call and speaks Twilio's Media Streams: JSON with mu-law of
8 kHz in base64. Here provider and model are simulated. Run it: `python examples/phone_bridge.py`
"""

import asyncio
import base64
import contextlib
import hmac
import json
from functools import partial

from websockets import ConnectionClosed, Request, Response
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor
from leonidas_tools import simulator as sim
from leonidas_tools.gateway import make_token, serve_gateway

SECRET = "the secret of the gateway, 32 bytes or more"
AUTH_TOKEN = b"the token of your account at the provider"
PUBLIC_URL = b"wss://phone.example.org/calls"  # as the provider calls the bridge
SIGNATURE = base64.b64encode(hmac.digest(AUTH_TOKEN, PUBLIC_URL, "sha1")).decode()
HEARS, SAYS = sim.WaitForInput("audio"), sim.Say("Hello, who is it?", audio_seconds=0.5)
SCRIPT = [HEARS, SAYS, sim.TurnComplete(), HEARS, sim.Interrupt()]


def admit(phone: ServerConnection, request: Request) -> Response | None:
    given = request.headers.get("x-twilio-signature", "").encode()
    return None if hmac.compare_digest(given, SIGNATURE.encode()) else phone.respond(403, "No\n")


async def bridge(phone: ServerConnection, gateway_url: str) -> None:
    while (event := json.loads(await phone.recv()))["event"] != "start":
        pass  # it says that it is connected
    # Each call is a user of its own: the number of a caller can be forged.
    token = make_token(SECRET, f"call-{event['start']['callSid']}", seconds=60)
    url, headers = f"{gateway_url}/conversation", {"Authorization": f"Bearer {token}"}
    async with connect(url, additional_headers=headers, proxy=None) as gateway:
        await gateway.send(json.dumps({"type": "start", "format": "mulaw", "rate": 8000}))
        await asyncio.gather(hear(phone, gateway), speak(gateway, phone, event["streamSid"]))


async def hear(phone: ServerConnection, gateway: ClientConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in phone:
            event = json.loads(message)
            if event["event"] == "media":
                with contextlib.suppress(ConnectionClosed):  # the last words are still played
                    await gateway.send(base64.b64decode(event["media"]["payload"]))
            elif event["event"] in {"mark", "stop"}:  # all was played, or the caller has hung up
                break
    await gateway.close()


async def speak(gateway: ClientConnection, phone: ServerConnection, sid: str) -> None:
    with contextlib.suppress(ConnectionClosed):
        async for message in gateway:
            if isinstance(message, bytes):
                event = {"event": "media", "media": {"payload": base64.b64encode(message).decode()}}
                await phone.send(json.dumps(event | {"streamSid": sid}))
            elif json.loads(message)["type"] == "interrupted":  # the caller speaks: be silent
                await phone.send(json.dumps({"event": "clear", "streamSid": sid}))
    with contextlib.suppress(ConnectionClosed):  # the provider sends it back after what it plays
        await phone.send(json.dumps({"event": "mark", "streamSid": sid, "mark": {"name": "end"}}))


async def ring(url: str) -> None:
    headers = {"X-Twilio-Signature": SIGNATURE}
    async with connect(url, additional_headers=headers, proxy=None) as call:
        await call.send('{"event": "start", "streamSid": "MZ1", "start": {"callSid": "CA1"}}')
        said = {"payload": base64.b64encode(b"\xff" * 160).decode()}  # 20 ms of silence
        await call.send(json.dumps({"event": "media", "media": said}))
        heard = 0
        while (event := json.loads(await call.recv()))["event"] == "media":
            heard += len(base64.b64decode(event["media"]["payload"]))
            if heard == 4000:
                await call.send(json.dumps({"event": "media", "media": said}))
        print(f"the phone hears {heard / 8000} s of speech, and then: {event['event']}")


async def main() -> None:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    tools = AdvancedToolProcessor()
    async with sim.LiveSimulator(sim.Scenario(SCRIPT)) as gemini:
        there = gemini.http_options()
        live = GeminiLiveProcessor("gemini-3.8-live", tools=tools, api_key="no", http_options=there)
        serving = serve_gateway(tools, live, secret=SECRET, port=0, on_listening=address.set_result)
        gateway = asyncio.create_task(serving)
        calling = partial(bridge, gateway_url=(await address).replace("http", "ws", 1))
        async with serve(calling, "127.0.0.1", 0, process_request=admit) as calls:
            await ring(f"ws://127.0.0.1:{calls.sockets[0].getsockname()[1]}/calls")
        gateway.cancel()
        await asyncio.wait({gateway})


if __name__ == "__main__":
    asyncio.run(main())
