"""A conversation over a WebSocket: audio and text to an agent, audio and messages back.

The gateway and the console share it. They differ in who may connect, and in their other messages.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai.errors import APIError
from starlette.websockets import WebSocketDisconnect, WebSocketState

from leonidas_tools.calls.queues import BoundedQueue
from leonidas_tools.gateway import wire
from leonidas_tools.gateway.wire import BUSY, ENDED, FAILED, REFUSED, CloseError
from leonidas_tools.live.connection import message_of
from leonidas_tools.mcp_server.guard import TokenBucket
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable

    from genai_processors.processor import Processor
    from starlette.websockets import WebSocket

    from leonidas_tools.gateway.sound import SoundToClient

T = TypeVar("T")

logger = visible_logger(__name__)

_CLOSE_SECONDS = 2.0
_SEND_SECONDS = 30.0
_MESSAGES_PER_SECOND = 200.0
_MAX_MESSAGES_AT_ONCE = 1000.0
_TEXTS_PER_SECOND = 5.0
_MAX_TEXTS_AT_ONCE = 20.0
_SOUND_PACE = 1.5
_MAX_SOUND_SECONDS_AT_ONCE = 15.0
_MAX_UNHEARD_BYTES = 480_000
"""Bytes that the agent has not read: 10 s of audio at 24 kHz."""
_MAX_UNSENT_MESSAGE_BYTES = 262_144
_ITEM_BYTES = 64
_FRAME_SECONDS_OUT = 0.1


class Talk:
    """One conversation with an agent; `use` sets its formats.

    Args:
        frame_seconds: The longest frame of audio from a client.
    """

    messages = wire.MESSAGES
    """The messages of a client."""

    def __init__(self, *, frame_seconds: float) -> None:
        self.active = asyncio.Event()
        """Set when a client has sent a message."""
        self._frame_seconds = frame_seconds
        self._heard: BoundedQueue[ProcessorPart] = BoundedQueue(
            size_of=_size_of_part, max_bytes=_MAX_UNHEARD_BYTES, on_full=_drop_oldest_sound
        )
        self._messages = TokenBucket(per_second=_MESSAGES_PER_SECOND, at_once=_MAX_MESSAGES_AT_ONCE)
        self._texts = TokenBucket(per_second=_TEXTS_PER_SECOND, at_once=_MAX_TEXTS_AT_ONCE)
        self._sound_pace = TokenBucket(per_second=_SOUND_PACE, at_once=_MAX_SOUND_SECONDS_AT_ONCE)

    def use(
        self,
        sound: wire.SoundFormat,
        spoken: wire.SoundFormat,
        *,
        unsent_seconds: float,
        converter: SoundToClient | None = None,
    ) -> None:
        """Set the formats of audio from the client and to the client."""
        self.sound = sound
        self._converter = converter
        self._frame_bytes = spoken.bytes_of(_FRAME_SECONDS_OUT)
        self._unsent: BoundedQueue[bytes | str | asyncio.Event] = BoundedQueue(
            size_of=_size_of_item,
            max_bytes=spoken.bytes_of(unsent_seconds) + _MAX_UNSENT_MESSAGE_BYTES,
            on_full=self.drop_unsent,
        )

    async def listen(self, websocket: WebSocket) -> NoReturn:
        """Pass the messages of a client on to the agent.

        Raises:
            WebSocketDisconnect: The client has left.
            CloseError: A message is invalid, or there are too many.
        """
        while True:
            given = await receive(websocket)
            self.active.set()
            if not self._messages.spend():
                raise _flood()
            if isinstance(given, bytes):
                self._check_sound(given)
                self.hear_sound(given)
            elif self._texts.spend():
                self.hear_message(wire.parse_message(given, self.messages))
            else:
                raise _flood()

    def _check_sound(self, frame: bytes) -> None:
        seconds = self.sound.seconds(len(frame))
        whole = bool(frame) and not len(frame) % self.sound.sample_bytes
        if not whole or seconds > self._frame_seconds:
            reason = f"A frame must be whole samples, at most {self._frame_seconds:g} seconds"
            raise CloseError(REFUSED, "frame", reason)
        if not self._sound_pace.spend(seconds):
            raise _flood()

    def hear_sound(self, frame: bytes) -> None:
        """Pass audio on to the agent."""
        kind = self.sound.mime_type
        self._heard.put(ProcessorPart(frame, mimetype=kind, role="user", substream_name="realtime"))

    def hear_message(self, given: wire.ClientMessage) -> None:
        """Pass a message on to the agent."""
        if isinstance(given, wire.Text):
            part = ProcessorPart(given.text, role="user")
        else:
            ended = {"audio_stream_end": True}
            part = ProcessorPart("", role="user", substream_name="realtime", metadata=ended)
        self._heard.put(part)

    async def send(self, websocket: WebSocket) -> NoReturn:
        """Send audio and messages to a client.

        Raises:
            CloseError: The client reads too slowly.
        """
        while True:
            item = await self._unsent.get()
            if isinstance(item, asyncio.Event):
                item.set()
                continue
            try:
                await send_item(websocket, item)
            except BaseException:
                self._unsent.put_back(item)  # for a client that connects again
                raise

    async def wait_until_sent(self) -> None:
        """Wait until all audio and messages are sent."""
        sent = asyncio.Event()
        self._unsent.put(sent)
        await sent.wait()

    def tell(self, kind: str, **fields: object) -> None:
        """Send a message to the client."""
        self.put_message(wire.message(kind, **fields))

    def put_message(self, message: str) -> None:
        """Send a message to the client, as JSON."""
        self._unsent.put(message)

    def drop_unsent(self, unsent: BoundedQueue[Any]) -> None:
        """Make room for more audio and messages; called while the client reads too slowly.

        Raises:
            CloseError: The conversation ends instead.
        """
        del unsent
        raise _slow_reader()

    async def converse(self, agent: Processor) -> None:
        """Run the agent until it ends."""
        async with processor.context():  # without it, cancelling a chain would hang
            async for part in agent(self._stream_heard()):
                self.take_part(part)

    async def _stream_heard(self) -> AsyncIterator[ProcessorPart]:
        while True:
            yield await self._heard.get()

    def take_part(self, part: ProcessorPart) -> None:
        """Send to the client what a part of the agent contains for it."""
        if part.metadata.get("interrupted"):
            if self._converter is not None:
                self._converter.drop()
            self._unsent.remove(_is_sound)
            self.tell("interrupted")
        elif part.mimetype.startswith("audio/") and (sound := part.bytes):
            convert = self._converter
            self.play(sound if convert is None else convert.take(sound, part.mimetype))
        if part.metadata.get("turn_complete"):
            if self._converter is not None:
                self.play(self._converter.finish())
            self.tell("turn_complete")

    def play(self, sound: bytes) -> None:
        """Send audio to the client, in frames."""
        for start in range(0, len(sound), self._frame_bytes):
            self._unsent.put(sound[start : start + self._frame_bytes])


async def run_until_first(parts: Iterable[Coroutine[Any, Any, T]]) -> T:
    """Run coroutines until one ends, and return its result; of several, that of the first."""
    tasks = [asyncio.create_task(each, name="talk") for each in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return next(task for task in tasks if task in done).result()


async def leave(wanted: asyncio.Event, code: int = ENDED) -> NoReturn:
    """Wait until another connection takes over the conversation, and raise `CloseError`."""
    await wanted.wait()
    raise CloseError(code, "replaced", "The conversation continues on another connection")


async def receive(websocket: WebSocket) -> bytes | str:
    """Return the next message of a client.

    Raises:
        WebSocketDisconnect: The client has left.
    """
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", ENDED))
    sound: bytes | None = message.get("bytes")
    return str(message.get("text")) if sound is None else sound


async def send_item(websocket: WebSocket, item: bytes | str) -> None:
    """Send one message to a client.

    Raises:
        CloseError: The client reads too slowly.
    """
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            if isinstance(item, bytes):
                await websocket.send_bytes(item)
            else:
                await websocket.send_text(item)
    except WebSocketDisconnect:
        await asyncio.Event().wait()  # `listen` raises it, with the code of the client
    except TimeoutError:
        raise _slow_reader() from None


async def close(websocket: WebSocket, closed: CloseError) -> None:
    """Close a connection, unless the client has closed it."""
    if websocket.application_state is not WebSocketState.CONNECTED:
        return
    with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await websocket.close(closed.code, closed.reason)


def close_error(error: BaseException, name: object) -> CloseError:
    """Return the `CloseError` for an error of an agent; `name` is the conversation in the log."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, CloseError):
        return error
    if isinstance(error, APIError):  # its message has the reason; a traceback does not
        logger.error("%s has failed: %s", name, message_of(error))
    else:
        logger.error("%s has failed", name, exc_info=error)
    return CloseError(FAILED, "failed", "The agent has failed: see the log of the server")


def _flood() -> CloseError:
    reason = "Too many messages or too much audio: send them in real time"
    return CloseError(REFUSED, "flood", reason)


def _slow_reader() -> CloseError:
    return CloseError(REFUSED, "slow_reader", "The client reads too slowly")


def _drop_oldest_sound(heard: BoundedQueue[ProcessorPart]) -> None:
    if not heard.remove_oldest(lambda part: part.part.inline_data is not None):
        raise CloseError(BUSY, "busy", "Too many messages are waiting for the agent: wait")


def _size_of_part(part: ProcessorPart) -> int:
    blob = part.part.inline_data
    return _ITEM_BYTES + len((blob.data if blob is not None else part.part.text) or "")


def _size_of_item(item: bytes | str | asyncio.Event) -> int:
    return 0 if isinstance(item, asyncio.Event) else _ITEM_BYTES + len(item)


def _is_sound(item: object) -> bool:
    return isinstance(item, bytes)
