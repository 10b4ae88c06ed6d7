"""The WebSocket to Gemini Live, with no server able to hold up the event loop.

asyncio passes on up to 256 KiB at once. These may be a hundred thousand frames, and the WebSocket
library processes all of them in one turn of the event loop.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, TypeGuard

from websockets.asyncio.client import ClientConnection
from websockets.frames import DATA_OPCODES, Frame, Opcode
from websockets.protocol import State

from leonidas_tools.results.json_size import has_too_many_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.protocol import Event

MAX_VALUES = 20_000
"""Maximum values in a message: the client and we may take 50 microseconds for each."""
LONG_BYTES = 16 * 1024
"""Size above which other tasks run after one message: it takes as long as a burst of short ones."""
_PIECE_BYTES = 2048
_FRAMES_PER_TURN = 16
_BYTES_PER_TURN = 32 * 1024
_FEWEST_BYTES_PER_SECOND = 1024
"""Fewest bytes that the server reads of what waits: a microphone sends forty times as many."""
_MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""Most bytes that wait for a server that does not read: each ping of it is answered."""


class GradualSocket(ClientConnection):
    """Processes received data in pieces; after 16 frames or 32 KiB, other tasks run.

    It processes none while as many messages wait for their reader as the library allows.

    Attributes:
        take: Takes a message that no other waits before, or returns false to leave it to `recv`.
            Longer messages than 16 KiB are always left to it.
    """

    take: Callable[[bytes], bool] | None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unprocessed = bytearray()
        self._frames = 0
        self.take = None
        self._next_turn: asyncio.Handle | None = None
        self._is_full = False
        self._end: Callable[[], None] | None = None
        self._is_set_up = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use the connection."""
        super().connection_made(transport)
        self.recv_messages.pause = self._pause
        self.recv_messages.resume = self._resume

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        self._unprocessed += data
        if self._next_turn is None and not self._is_full:
            self._process()

    def eof_received(self) -> None:
        """Process the end of the data, unless `connection_lost` does so after the rest of it."""
        if not self._unprocessed:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection, after the rest of the data."""
        self._end = functools.partial(super().connection_lost, exc)
        self._continue()

    def process_event(self, event: Event) -> None:
        """Process a frame."""
        self._frames += 1
        if self.take is None or not self._is_next(event) or not self.take(bytes(event.data)):
            super().process_event(event)

    def _is_next(self, event: Event) -> TypeGuard[Frame]:
        """Return whether a frame is a whole message before which no other waits."""
        if not isinstance(event, Frame) or len(event.data) > LONG_BYTES:
            return False
        is_message = event.fin and event.opcode in DATA_OPCODES and event.opcode is not Opcode.CONT
        return is_message and not self.recv_messages.frames

    async def drain(self) -> None:
        """Wait until the server has read most of what was sent.

        Raises:
            TimeoutError: It has read almost nothing for the time in which it must answer a ping, or
                a close frame. The library waits without end here, also to ping and to close.
        """
        is_open = self.protocol.state is State.OPEN
        limit_seconds = self.ping_timeout if is_open else self.close_timeout
        fewest_bytes = (limit_seconds or 0.0) * _FEWEST_BYTES_PER_SECOND
        while self.paused:
            unsent = self.transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(limit_seconds):
                    await super().drain()
            except TimeoutError:
                if not is_open or self.transport.get_write_buffer_size() > unsent - fewest_bytes:
                    raise
        await super().drain()

    async def recv(self, decode: bool | None = None) -> Any:
        """Return the next message.

        Raises:
            OSError: The first message, the reply to the setup, has too many values.
        """
        received = await super().recv(decode)
        if not self._is_set_up and has_too_many_values(_bytes(received), MAX_VALUES):
            raise OSError("the reply of the server to the setup has too many values")
        self._is_set_up = True
        return received

    def _process(self) -> None:
        self._next_turn = None
        self._frames = 0
        for _ in range(0, _BYTES_PER_TURN, _PIECE_BYTES):
            piece = bytes(self._unprocessed[:_PIECE_BYTES])
            del self._unprocessed[:_PIECE_BYTES]
            super().data_received(piece)
            if self._frames >= _FRAMES_PER_TURN or self._is_full or not self._unprocessed:
                break
        if self.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self._unprocessed.clear()
            self.transport.abort()
        self._continue()

    def _continue(self) -> None:
        """Process the next piece in the next turn of the loop; without one, read or end."""
        if self._unprocessed:
            self.transport.pause_reading()
            if self._next_turn is None and (self._end or not self._is_full):
                self._next_turn = self.loop.call_soon(self._process)
        elif self._end is not None:
            end, self._end = self._end, None
            end()
        elif not self._is_full:
            self.transport.resume_reading()

    def _pause(self) -> None:
        self._is_full = True
        self.transport.pause_reading()

    def _resume(self) -> None:
        self._is_full = False
        self._continue()


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message
