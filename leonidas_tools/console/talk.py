"""Talk with the agent over a WebSocket: sound and typed text in, sound out.

Each connection is a conversation of its own, which ends with it. A client sends 16-bit PCM at
16 kHz in binary messages and `TalkMessage` as JSON; it gets 16-bit PCM at 24 kHz in binary
messages, and `{"type": "ready" | "interrupted" | "turn_complete"}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.websockets import WebSocketDisconnect, WebSocketState

from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from genai_processors.content_api import ProcessorPart
    from genai_processors.processor import Processor
    from starlette.websockets import WebSocket

    Agents: TypeAlias = Callable[[], AbstractAsyncContextManager[Processor]]
    """Opens an agent for one conversation; a `LiveToolSession` as a rule."""

logger = visible_logger(__name__)

PROTOCOL = "leonidas.talk.v1"
LONGEST_MESSAGE_BYTES = 16_384
_LONGEST_FRAME_BYTES = 6_400  # 200 ms; the page sends 20 ms
_MESSAGES_PER_SECOND = 100.0
_MOST_MESSAGES_AT_ONCE = 500.0
_MOST_TALKS = 8
_MOST_UNHEARD_BYTES = 320_000  # 10 s that the agent has not taken yet
_MOST_UNSENT_BYTES = 2_880_000  # 60 s that the client has not taken yet
_MOST_WAITING_MESSAGES = 64
_LONGEST_SEND_SECONDS = 30.0
_CLOSE_SECONDS = 2.0
_MICROPHONE = "audio/pcm;rate=16000"
_ENDED, _LEAVING, _UNSUPPORTED, _REFUSED, _FAILED, _BUSY = 1000, 1001, 1003, 1008, 1011, 1013


class TalkMessage(BaseModel):
    """A typed text, or that the microphone is muted."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text", "audio_end"]
    text: Annotated[str, StringConstraints(max_length=4000)] = ""


class _ClosedError(Exception):
    """The conversation ends, for a reason that the client is told."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Waiting:
    """Sound and messages that wait in their order; of too much sound the oldest is dropped."""

    def __init__(self, most_sound_bytes: int) -> None:
        self._most_bytes = most_sound_bytes
        self._items: deque[bytes | str] = deque()
        self._bytes = 0
        self._texts = 0
        self._filled = asyncio.Event()

    def put(self, item: bytes | str) -> None:
        """Add one.

        Raises:
            _ClosedError: Too many messages wait.
        """
        self._items.append(item)
        if isinstance(item, str):
            self._texts += 1
            if self._texts > _MOST_WAITING_MESSAGES:
                raise _ClosedError(_BUSY, "Too many messages wait: send and read at a steady pace")
        else:
            self._bytes += len(item)
            while self._bytes > self._most_bytes:
                self._drop_sound(oldest_only=True)
        self._filled.set()

    def silence(self) -> None:
        """Drop all sound."""
        self._drop_sound(oldest_only=False)

    def _drop_sound(self, *, oldest_only: bool) -> None:
        kept: deque[bytes | str] = deque()
        while self._items:
            item = self._items.popleft()
            if isinstance(item, str):
                kept.append(item)
                continue
            self._bytes -= len(item)
            if oldest_only:
                break
        self._items.extendleft(reversed(kept))

    async def get(self) -> bytes | str:
        """Remove and return the first, once there is one."""
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        item = self._items.popleft()
        if isinstance(item, str):
            self._texts -= 1
        else:
            self._bytes -= len(item)
        return item


class TalkEndpoint:
    """Join each client with an agent of its own.

    Args:
        agents: Opens an agent; `None` where there is none to talk to.
        closing: Set when every conversation is to end.
    """

    def __init__(self, agents: Agents | None, closing: asyncio.Event) -> None:
        self._agents = agents
        self._closing = closing
        self._talks: set[asyncio.Task[object]] = set()

    async def ended(self) -> None:
        """Wait until every conversation has ended."""
        if self._talks:
            await asyncio.wait(self._talks)

    async def answer(self, websocket: WebSocket) -> None:
        """Hold one conversation, until the client leaves, the agent ends or the console closes."""
        offered = websocket.scope["subprotocols"]
        await websocket.accept(PROTOCOL if PROTOCOL in offered else None)
        task = asyncio.current_task()
        assert task is not None
        try:
            agents = self._admitted()
            self._talks.add(task)
            await _Talk(websocket, agents, self._closing).hold()
        except WebSocketDisconnect:
            return
        except _ClosedError as closed:
            await _close(websocket, closed.code, closed.reason)
        finally:
            self._talks.discard(task)

    def _admitted(self) -> Agents:
        """Return what opens the agent of one more conversation.

        Raises:
            _ClosedError: There can be none.
        """
        if self._agents is None:
            raise _ClosedError(_REFUSED, "There is no agent to talk to here")
        if self._closing.is_set():
            raise _ClosedError(_LEAVING, "The console closes")
        if len(self._talks) >= _MOST_TALKS:
            raise _ClosedError(_BUSY, "Too many conversations: end one, or try again later")
        return self._agents


class _Talk:
    """One conversation."""

    def __init__(self, websocket: WebSocket, agents: Agents, closing: asyncio.Event) -> None:
        self._websocket = websocket
        self._agents = agents
        self._closing = closing
        self._heard = _Waiting(_MOST_UNHEARD_BYTES)
        self._unsent = _Waiting(_MOST_UNSENT_BYTES)
        self._budget = _MOST_MESSAGES_AT_ONCE
        self._counted = time.monotonic()

    async def hold(self) -> None:
        """Run until a side ends.

        Raises:
            WebSocketDisconnect: The client has left.
            _ClosedError: It ends for another reason.
        """
        agent = asyncio.create_task(self._converse(), name="console:talk-agent")
        closing = asyncio.create_task(self._closing.wait(), name="console:talk-closing")
        ends: list[asyncio.Task[object]] = [
            asyncio.create_task(self._listen(), name="console:talk-listen"),
            asyncio.create_task(self._send(), name="console:talk-send"),
        ]
        running = {agent, closing, *ends}
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for each in ends:
                if each.done():
                    each.result()
            if closing.done():
                raise _ClosedError(_LEAVING, "The console closes")
            _raise_end(agent)
        finally:
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    async def _listen(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", _ENDED))
            self._count()
            self._take(message.get("bytes"), message.get("text"))

    def _count(self) -> None:
        now = time.monotonic()
        more = (now - self._counted) * _MESSAGES_PER_SECOND
        self._budget, self._counted = min(self._budget + more, _MOST_MESSAGES_AT_ONCE), now
        if self._budget < 1:
            raise _ClosedError(_REFUSED, "Too many messages: send sound as fast as it is spoken")
        self._budget -= 1

    def _take(self, sound: bytes | None, text: str | None) -> None:
        if sound is not None:
            if not sound or len(sound) % 2 or len(sound) > _LONGEST_FRAME_BYTES:
                reason = f"A frame has 1 to {_LONGEST_FRAME_BYTES // 2} samples of two bytes"
                raise _ClosedError(_REFUSED, reason)
            self._heard.put(sound)
            return
        try:
            said = TalkMessage.model_validate_json(text or "")
        except ValidationError:
            reason = "A message is JSON with type and text, of at most 4000 characters"
            raise _ClosedError(_UNSUPPORTED, reason) from None
        self._heard.put(said.model_dump_json())

    async def _send(self) -> None:
        while True:
            item = await self._unsent.get()
            try:
                async with asyncio.timeout(_LONGEST_SEND_SECONDS):
                    if isinstance(item, bytes):
                        await self._websocket.send_bytes(item)
                    else:
                        await self._websocket.send_text(item)
            except TimeoutError:
                raise _ClosedError(_REFUSED, "The client reads too slowly") from None

    async def _converse(self) -> None:
        from genai_processors import processor

        async with self._agents() as agent:
            self._tell("ready")
            # Without a context, cancelling a chain of processors would hang.
            async with processor.context():
                async for part in agent(self._said()):
                    self._hear(part)

    async def _said(self) -> AsyncIterator[ProcessorPart]:
        from genai_processors.content_api import ProcessorPart

        while True:
            item = await self._heard.get()
            if isinstance(item, bytes):
                yield ProcessorPart(
                    item, mimetype=_MICROPHONE, role="user", substream_name="realtime"
                )
                continue
            said = TalkMessage.model_validate_json(item)
            if said.type == "text":
                yield ProcessorPart(said.text, role="user")
            else:
                ended = {"audio_stream_end": True}
                yield ProcessorPart("", role="user", substream_name="realtime", metadata=ended)

    def _hear(self, part: ProcessorPart) -> None:
        blob = part.part.inline_data
        if part.metadata.get("interrupted"):
            self._unsent.silence()
            self._tell("interrupted")
        elif blob is not None and blob.data and (blob.mime_type or "").startswith("audio/pcm"):
            self._unsent.put(blob.data)
        if part.metadata.get("turn_complete"):
            self._tell("turn_complete")

    def _tell(self, kind: str) -> None:
        self._unsent.put(json.dumps({"type": kind}))


def _raise_end(agent: asyncio.Task[None]) -> None:
    """Raise why the agent has ended."""
    error = agent.exception()
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, _ClosedError):
        raise error
    if error is not None:
        logger.error("The agent that was talked to has failed", exc_info=error)
        raise _ClosedError(_FAILED, "The agent has failed: the log of the console says why")
    raise _ClosedError(_ENDED, "The conversation has ended")


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    if websocket.application_state is not WebSocketState.CONNECTED:
        return
    with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await websocket.close(code, reason)
