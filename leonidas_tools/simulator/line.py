"""The server's end of one connection: what goes out on it, and when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, Literal

from websockets.exceptions import ConnectionClosed

from leonidas_tools.simulator.received import IssuedHandle
from leonidas_tools.simulator.recording import RecordedMessage
from leonidas_tools.simulator.wire import Message, encode

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from leonidas_tools.simulator.door import Refusing
    from leonidas_tools.simulator.hearing import HearingConnection
    from leonidas_tools.simulator.house import House
    from leonidas_tools.simulator.resumption import Session

_REASON_BYTES: Final = 123
_ROUND_TRIPS: Final = 3


class ConnectionLine:
    """The line that a session speaks on.

    Args:
        number: The connection, counted from 1.
        websocket: The connection itself.
        house: What all connections share.
    """

    def __init__(self, number: int, websocket: HearingConnection, *, house: House) -> None:
        self._number = number
        self._websocket = websocket
        self._house = house
        self._session: Session | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False

    @property
    def ended(self) -> bool:
        """Return whether the server has ended the connection."""
        return self._ended

    def belongs_to(self, session: Session) -> None:
        """Take note of whose line it is."""
        self._session = session

    def release(self) -> None:
        """Stop what is being sent."""
        for task in self._tasks:
            task.cancel()

    def note(self, sender: Literal["client", "server"], data: Any) -> None:
        """Keep a message that crossed the wire."""
        message = RecordedMessage(
            connection=self._number, sender=sender, at=time.monotonic(), data=data
        )
        self._house.record.messages.append(message)
        self._house.record.changed()

    async def send(self, message: Message | str) -> None:
        """Send a message, or a raw frame."""
        text = message if isinstance(message, str) else encode(message)
        self.note("server", message)
        await self._websocket.send(text, text=self._house.conduct.quirks.text_frames)

    def told(self, ids: tuple[str, ...]) -> None:
        """Has it noted when the client has seen what was sent so far."""
        self._start(self._await_told(ids))

    async def _await_told(self, ids: tuple[str, ...]) -> None:
        # An answer that crosses a cancellation on the way is no fault. The pong follows what
        # the client sent before the ping came, but its network layer is ahead of the agent.
        for _ in range(_ROUND_TRIPS):
            await (await self._websocket.ping())
        self._house.record.ledger.told(self._number, ids)
        self._house.record.changed()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_until_closed(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The end of the connection, and other trouble with it.

    async def close(self, code: int, reason: str) -> None:
        """End the connection in good order."""
        self._ended = True
        short = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
        await self._websocket.close(code, short)

    def close_later(self, seconds: float, code: int, reason: str) -> None:
        """End the connection in good order after a while."""
        self._start(self._close_after(seconds, code, reason))

    async def _close_after(self, seconds: float, code: int, reason: str) -> None:
        await asyncio.sleep(seconds)
        await self.close(code, reason)

    def drop(self) -> None:
        """End the connection without a word."""
        self._ended = True
        self._websocket.transport.abort()

    def turn_deaf(self, seconds: float | None) -> None:
        """Take no notice of what the client sends, for a while or for good."""
        self._websocket.turn_deaf()
        if seconds is not None:
            self._start(self._hear_after(seconds))

    async def _hear_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._websocket.hear()

    # What concerns other connections, too.

    def new_handle(self) -> str:
        """Return a new handle."""
        return self._house.book.new_handle(self._its_session)

    def issue_handle(self, handle: str) -> None:
        """Make a handle good for this session."""
        session = self._its_session
        self._house.book.issue(handle, session)
        issued = IssuedHandle(connection=self._number, session=session.number, handle=handle)
        self._house.record.handles.append(issued)

    def expire_handles(self) -> None:
        """End the life of all handles of this session."""
        self._house.book.expire(self._its_session)

    def refuse_connections(self, count: int, refusing: Refusing) -> None:
        """Turn away connections to come."""
        self._house.door.refuse(count, refusing)

    def stop_listening(self, seconds: float) -> None:
        """Stop the server's listening for a while."""
        self._house.door.shut_for(seconds)

    @property
    def _its_session(self) -> Session:
        assert self._session is not None
        return self._session


async def _until_closed(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(ConnectionClosed):
        await work
