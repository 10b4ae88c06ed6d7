"""A program is a client of the gateway: sound and text go there, sound and messages come back.

It says one thing and listens until the answer ends. Where a connection is lost, the conversation
goes on at the next address. Run it alone, or with gateways that run:
`LEONIDAS_TOKEN=$(leonidas serve token --user ana) python examples/gateway_client.py \
ws://127.0.0.1:8801/conversation ws://127.0.0.1:8802/conversation`
"""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Sequence

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor
from leonidas_tools.gateway import make_token, serve_gateway
from leonidas_tools.simulator import LiveSimulator, Say, Scenario, TurnComplete, WaitForInput

SILENCE = bytes(3200)  # 0.1 s of 16-bit samples at 16 kHz, where a microphone would be


async def talk(addresses: Sequence[str], token: str, text: str) -> None:
    """Say something, and print the answer."""
    start = {"type": "start"}
    for address in addresses:
        signed_in = {"Authorization": f"Bearer {token}"}
        try:
            async with connect(address, additional_headers=signed_in) as gateway:
                await gateway.send(json.dumps(start))
                for _ in range(5):
                    await gateway.send(SILENCE)
                    await asyncio.sleep(0.1)  # as fast as it is spoken
                await gateway.send(json.dumps({"type": "text", "text": text}))
                heard_bytes = 0
                async for message in gateway:
                    if isinstance(message, bytes):
                        heard_bytes += len(message)
                        continue
                    told = json.loads(message)
                    print(told)
                    if told["type"] == "resumption":
                        start["resume"] = told["token"]
                    elif told["type"] == "turn_complete":
                        print(f"heard: {heard_bytes / 32000:.1f} s")
                        return
        except (OSError, WebSocketException) as lost:  # such as a token that is refused
            print(f"{address}: {lost}", file=sys.stderr)
    sys.exit(1)


async def main() -> None:
    text = "How is the weather in Lisbon?"
    if sys.argv[1:]:
        await talk(sys.argv[1:], os.environ.get("LEONIDAS_TOKEN", ""), text)
        return
    tools, secret = AdvancedToolProcessor(), secrets.token_hex(32)
    model = [
        WaitForInput("audio"),
        WaitForInput("text"),
        Say("It is sunny.", audio_seconds=0.5),
        TurnComplete(),
    ]
    listens: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with LiveSimulator(Scenario(model)) as gemini:
        live = GeminiLiveProcessor(
            "gemini-3.8-live", api_key="none", http_options=gemini.http_options(), tools=tools
        )
        serving = asyncio.create_task(
            serve_gateway(tools, live, secret=secret, port=0, on_listening=listens.set_result)
        )
        address = (await listens).replace("http://", "ws://") + "/conversation"
        await talk([address], make_token(secret, "ana"), text)
        serving.cancel()
        await asyncio.wait({serving})


if __name__ == "__main__":
    asyncio.run(main())
