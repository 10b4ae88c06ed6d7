"""Talk with the agent over a WebSocket: audio and typed text in, audio out.

Each client has its own conversation. A client sends 16-bit PCM at 16 kHz in binary messages and
`TalkMessage` as JSON; it receives 16-bit PCM at 24 kHz in binary messages, and `{"type": "ready" |
"interrupted" | "turn_complete"}`. `ready` has the id of the conversation: a client that lost its
connection resumes it by `?conversation=…`, and receives the output of the meantime.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections import deque
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from starlette.websockets import WebSocketDisconnect, WebSocketState

from leonidas_tools.mcp_server.guard import TokenBucket
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from genai_processors.content_api import ProcessorPart
    from genai_processors.processor import Processor
    from starlette.websockets import WebSocket

    Agents: TypeAlias = Callable[[], AbstractAsyncContextManager[Processor]]
    """Opens the agent of one conversation, usually a `LiveToolSession`."""

logger = visible_logger(__name__)

PROTOCOL = "leonidas.talk.v1"
MAX_MESSAGE_BYTES = 16_384
_MAX_FRAME_BYTES = 6_400  # 200 ms; the page sends 20 ms
_MESSAGES_PER_SECOND = 100.0
_MAX_MESSAGES_AT_ONCE = 500.0
_MAX_TALKS = 8
_MAX_UNHEARD_BYTES = 320_000  # 10 s that the agent has not received yet
_MAX_UNSENT_BYTES = 2_880_000  # 60 s that the client has not received yet
_MAX_WAITING_MESSAGES = 64
_MAX_SEND_SECONDS = 30.0
_CLOSE_SECONDS = 2.0
_KEPT_SECONDS = 30.0
"""Seconds in which a client that lost its connection can resume its conversation."""
_LOST = frozenset({1005, 1006})
"""The codes of a connection that ended without a close frame; uvicorn also uses 1005."""
_MICROPHONE = "audio/pcm;rate=16000"
_ENDED, _LEAVING, _UNSUPPORTED, _REFUSED, _FAILED, _BUSY = 1000, 1001, 1003, 1008, 1011, 1013


class TalkMessage(BaseModel):
    """A typed text, or a notice that the microphone is muted."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text", "audio_end"]
    text: Annotated[str, StringConstraints(max_length=4000)] = ""


class _ClosedError(Exception):
    """Raised to end the conversation; the client receives the code and the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Waiting:
    """A queue of audio and messages; over the limit, the oldest audio is dropped."""

    def __init__(self, most_sound_bytes: int) -> None:
        self._most_bytes = most_sound_bytes
        self._items: deque[bytes | str] = deque()
        self._bytes = 0
        self._texts = 0
        self._filled = asyncio.Event()

    def put(self, item: bytes | str) -> None:
        """Add an item."""
        self._items.append(item)
        if isinstance(item, str):
            self._texts += 1
            if self._texts > _MAX_WAITING_MESSAGES:
                raise _ClosedError(
                    _BUSY, "Too many messages are waiting: send and read at a steady pace"
                )
        else:
            self._bytes += len(item)
            while self._bytes > self._most_bytes:
                self._drop_sound(oldest_only=True)
        self._filled.set()

    def put_back(self, item: bytes | str) -> None:
        """Put an item that could not be sent back at the front."""
        self._items.appendleft(item)
        if isinstance(item, str):
            self._texts += 1
        else:
            self._bytes += len(item)

    def silence(self) -> None:
        """Drop all audio."""
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
        """Wait for an item; remove and return the first."""
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
    """Connects each client with its own agent, and connects it again after a lost connection.

    Args:
        agents: Opens an agent; `None` without an agent.
        closing: Set to end every conversation.
    """

    def __init__(self, agents: Agents | None, closing: asyncio.Event) -> None:
        self._agents = agents
        self._closing = closing
        self._talks: dict[str, _Talk] = {}
        self._tasks: set[asyncio.Task[object]] = set()

    async def wait_until_ended(self) -> None:
        """Wait until every conversation has ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def answer(self, websocket: WebSocket) -> None:
        """Serve one client, until it leaves, the conversation ends or the console closes."""
        offered = websocket.scope["subprotocols"]
        await websocket.accept(PROTOCOL if PROTOCOL in offered else None)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            known = self._talks.get(websocket.query_params.get("conversation", ""))
            if known is not None and not known.is_over:
                closed = await known.serve(websocket, is_resumed=True)
            else:
                closed = await self._start().serve(websocket, is_resumed=False)
        except _ClosedError as refused:
            closed = refused
        finally:
            self._tasks.discard(task)
        if closed is not None:
            await _close(websocket, closed.code, closed.reason)

    def _start(self) -> _Talk:
        """Start a conversation."""
        if self._agents is None:
            raise _ClosedError(_REFUSED, "There is no agent to talk to here")
        if self._closing.is_set():
            raise _ClosedError(_LEAVING, "The console is shutting down")
        if len(self._talks) >= _MAX_TALKS:
            raise _ClosedError(_BUSY, "Too many conversations: end one, or try again later")
        talk = _Talk(self._agents, self._closing)
        self._talks[talk.id] = talk
        task = asyncio.create_task(talk.run(), name="console:talk")
        self._tasks.add(task)

        def forget(ended: asyncio.Task[None]) -> None:
            del self._talks[talk.id]
            self._tasks.discard(ended)

        task.add_done_callback(forget)
        return talk


class _ClientSlot:
    """The connection of a client in a conversation; a later client replaces it."""

    def __init__(self) -> None:
        self.is_wanted = asyncio.Event()
        self.is_free = asyncio.Event()


class _Talk:
    """One conversation; it waits for a client whose connection was lost."""

    def __init__(self, agents: Agents, closing: asyncio.Event) -> None:
        self.id = secrets.token_urlsafe(16)
        self._agents = agents
        self._closing = closing
        self._is_open = asyncio.Event()
        self._over: asyncio.Future[_ClosedError] = asyncio.get_running_loop().create_future()
        self._place: _ClientSlot | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._heard = _Waiting(_MAX_UNHEARD_BYTES)
        self._unsent = _Waiting(_MAX_UNSENT_BYTES)
        self._is_speaking = False
        self._messages = TokenBucket(per_second=_MESSAGES_PER_SECOND, at_once=_MAX_MESSAGES_AT_ONCE)

    @property
    def is_over(self) -> bool:
        """Return whether the conversation is closed to clients."""
        return self._over.done()

    def _end(self, why: _ClosedError) -> None:
        if not self._over.done():
            self._over.set_result(why)

    async def run(self) -> None:
        """Run the agent until it ends, the console closes or the client does not reconnect."""
        agent = asyncio.create_task(self._converse(), name="console:talk-agent")
        closing = asyncio.create_task(self._closing.wait(), name="console:talk-closing")
        running: set[asyncio.Task[Any]] = {agent, closing}
        try:
            await asyncio.wait({*running, self._over}, return_when=asyncio.FIRST_COMPLETED)
            if closing.done():
                self._end(_ClosedError(_LEAVING, "The console is shutting down"))
            elif agent.done():
                self._end(_end_of(agent))
        finally:
            self._wait_no_more()
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    async def serve(self, websocket: WebSocket, *, is_resumed: bool) -> _ClosedError | None:
        """Serve a client until it leaves; return the reason if the server closes the connection.

        An earlier client is disconnected: its connection may be lost without notice.
        """
        before, mine = self._place, _ClientSlot()
        self._place = mine
        self._wait_no_more()
        try:
            if before is not None:
                before.is_wanted.set()
                await before.is_free.wait()
            return await self._run_connection(websocket, mine, is_resumed=is_resumed)
        finally:
            mine.is_free.set()
            if self._place is mine:
                self._place = None
                self._wait_for_client()

    def _wait_for_client(self) -> None:
        if self._over.done():
            return
        if self._is_speaking:  # then the agent answers the audio that it has received
            self._is_speaking = False
            try:
                self._heard.put(TalkMessage(type="audio_end").model_dump_json())
            except _ClosedError as full:
                self._end(full)
                return
        late = _ClosedError(_ENDED, "The client did not reconnect")
        self._patience = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._end, late)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    async def _run_connection(
        self, websocket: WebSocket, place: _ClientSlot, *, is_resumed: bool
    ) -> _ClosedError | None:
        listening = asyncio.create_task(self._listen(websocket), name="console:talk-listen")
        sending = asyncio.create_task(self._send(websocket, is_resumed), name="console:talk-send")
        losing = asyncio.create_task(place.is_wanted.wait(), name="console:talk-place")
        running: set[asyncio.Task[Any]] = {listening, sending, losing}
        try:
            await asyncio.wait({*running, self._over}, return_when=asyncio.FIRST_COMPLETED)
            if self._over.done():
                return self._over.result()
            if losing.done():
                return _ClosedError(_REFUSED, "The conversation continues on another connection")
            if sending.done():
                sending.result()
            if await listening not in _LOST:
                self._end(_ClosedError(_ENDED, "The client has disconnected"))
        except _ClosedError as fault:
            self._end(fault)
            return fault
        finally:
            for task in running:
                task.cancel()
            await asyncio.wait(running)
        return None

    async def _listen(self, websocket: WebSocket) -> int:
        """Receive the messages of a client; return the close code when it leaves."""
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return int(message.get("code", _ENDED))
            if not self._messages.spend():
                why = "Too many messages: send audio as fast as it is spoken"
                raise _ClosedError(_REFUSED, why)
            self._take(message.get("bytes"), message.get("text"))

    def _take(self, sound: bytes | None, text: str | None) -> None:
        if sound is not None:
            if not sound or len(sound) % 2 or len(sound) > _MAX_FRAME_BYTES:
                reason = f"A frame must have 1 to {_MAX_FRAME_BYTES // 2} samples of two bytes"
                raise _ClosedError(_REFUSED, reason)
            self._heard.put(sound)
            self._is_speaking = True
            return
        try:
            said = TalkMessage.model_validate_json(text or "")
        except ValidationError:
            reason = "A message must be JSON with type and text, of at most 4000 characters"
            raise _ClosedError(_UNSUPPORTED, reason) from None
        self._heard.put(said.model_dump_json())
        self._is_speaking = self._is_speaking and said.type != "audio_end"

    async def _send(self, websocket: WebSocket, is_resumed: bool) -> None:
        """Send the agent's output until the client has left."""
        await self._is_open.wait()
        ready = {"type": "ready", "conversation": self.id, "resumed": is_resumed}
        item: bytes | str = json.dumps(ready)
        with contextlib.suppress(WebSocketDisconnect):
            await _send_item(websocket, item)
            while True:
                item = await self._unsent.get()
                try:
                    await _send_item(websocket, item)
                except BaseException:
                    self._unsent.put_back(item)  # for the client after it reconnects
                    raise

    async def _converse(self) -> None:
        from genai_processors import processor

        async with self._agents() as agent:
            self._is_open.set()
            # Without a context, cancelling a chain of processors would hang.
            async with processor.context():
                async for part in agent(self._inputs()):
                    self._receive(part)

    async def _inputs(self) -> AsyncIterator[ProcessorPart]:
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

    def _receive(self, part: ProcessorPart) -> None:
        blob = part.part.inline_data
        if part.metadata.get("interrupted"):
            self._unsent.silence()
            self._send_event("interrupted")
        elif blob is not None and blob.data and (blob.mime_type or "").startswith("audio/pcm"):
            self._unsent.put(blob.data)
        if part.metadata.get("turn_complete"):
            self._send_event("turn_complete")

    def _send_event(self, kind: str) -> None:
        self._unsent.put(json.dumps({"type": kind}))


def _end_of(agent: asyncio.Task[None]) -> _ClosedError:
    """Return why the agent has ended."""
    error = agent.exception()
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, _ClosedError):
        return error
    if error is not None:
        logger.error("The agent of a conversation has failed", exc_info=error)
        return _ClosedError(_FAILED, "The agent has failed: the log of the console says why")
    return _ClosedError(_ENDED, "The conversation has ended")


async def _send_item(websocket: WebSocket, item: bytes | str) -> None:
    """Send one message."""
    try:
        async with asyncio.timeout(_MAX_SEND_SECONDS):
            if isinstance(item, bytes):
                await websocket.send_bytes(item)
            else:
                await websocket.send_text(item)
    except TimeoutError:
        raise _ClosedError(_REFUSED, "The client reads too slowly") from None


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    if websocket.application_state is not WebSocketState.CONNECTED:
        return
    with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await websocket.close(code, reason)
