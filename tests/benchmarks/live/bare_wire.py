"""The least that a session can cost: websockets, json and base64 by hand."""

import asyncio
import base64
import json
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

from tests.benchmarks.adapter import Part
from tests.benchmarks.live.agent import MODEL, Brief

_PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"


class BareWire:
    """Sends what comes, hands on what is heard, and answers calls; it resumes nothing."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief
        self._running: set[asyncio.Task[None]] = set()
        self._address = os.environ["GOOGLE_GEMINI_BASE_URL"].replace("https", "wss", 1) + _PATH
        self._certificates = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._running:
            task.cancel()

    async def talk(self, says: AsyncIterable[Part]) -> AsyncGenerator[bytes, None]:
        """One conversation."""
        key = {"x-goog-api-key": "simulated"}
        async with connect(
            self._address,
            ssl=self._certificates,
            additional_headers=key,
            proxy=None,
            compression=None,
            max_size=None,
        ) as socket:
            await socket.send(json.dumps({"setup": self._setup()}))
            await socket.recv()
            sending = asyncio.create_task(_send(socket, says))
            async for raw in socket:
                message = json.loads(raw)
                content = message.get("serverContent", {})
                for part in content.get("modelTurn", {}).get("parts", ()):
                    yield base64.b64decode(part["inlineData"]["data"])
                for call in message.get("toolCall", {}).get("functionCalls", ()):
                    task = asyncio.create_task(self._answer(socket, call))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
            await sending

    def _setup(self) -> dict[str, Any]:
        declared = [{"name": name} for name in self._brief.functions]
        return {
            "model": f"models/{MODEL}",
            "generationConfig": {"responseModalities": ["AUDIO"]},
            "tools": [{"functionDeclarations": declared}] if declared else [],
        }

    async def _answer(self, socket: ClientConnection, call: dict[str, Any]) -> None:
        value = await self._brief.functions[call["name"]](**call.get("args", {}))
        response = {"id": call["id"], "name": call["name"], "response": {"result": value}}
        await socket.send(json.dumps({"toolResponse": {"functionResponses": [response]}}))


async def _send(socket: ClientConnection, says: AsyncIterable[Part]) -> None:
    async for part in says:
        blob = part.part.inline_data
        if blob is None:
            said: dict[str, Any] = {"text": part.part.text}
        else:
            data = base64.b64encode(blob.data or b"").decode()
            said = {"audio": {"mimeType": blob.mime_type, "data": data}}
        await socket.send(json.dumps({"realtimeInput": said}))
    await socket.close()


def make(brief: Brief) -> BareWire:
    """The bare wire."""
    return BareWire(brief)
