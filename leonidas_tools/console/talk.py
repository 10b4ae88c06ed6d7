"""Talk with the agent over a WebSocket: audio and typed text in, audio out.

Each client has its own conversation. A client sends 16-bit PCM at 16 kHz in binary messages, and
the messages `text` and `audio_end` of the gateway; it receives 16-bit PCM at 24 kHz in binary
messages, and `{"type": "ready" | "interrupted" | "turn_complete"}`. `ready` has the id of the
conversation: a client that lost its connection resumes it by `?conversation=…`, and receives the
output of the meantime.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from starlette.websockets import WebSocketDisconnect

from leonidas_tools.gateway import wire
from leonidas_tools.gateway.limits import RunningSessions
from leonidas_tools.gateway.talk import Talk, close, close_error, leave, run_until_first, send_item
from leonidas_tools.gateway.wire import BUSY, ENDED, LEAVING, REFUSED, CloseError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from genai_processors.processor import Processor
    from starlette.websockets import WebSocket

    from leonidas_tools.calls.queues import BoundedQueue

    Agents: TypeAlias = Callable[[], AbstractAsyncContextManager[Processor]]
    """Opens the agent of one conversation, usually a `LiveToolSession`."""

PROTOCOL = "leonidas.talk.v1"
_FRAME_SECONDS = 0.2
_UNSENT_SECONDS = 60.0
_MAX_TALKS = 8
_KEPT_SECONDS = 30.0
"""Seconds in which a client that lost its connection can resume its conversation."""
_LOST = frozenset({1005, 1006})
"""The codes of a connection that ended without a close frame; uvicorn also uses 1005."""
_MICROPHONE = wire.SoundFormat(hertz=16_000)
_SPEAKER = wire.SoundFormat(hertz=24_000)


class TalkEndpoint:
    """Connects each client with its own agent, and connects it again after a lost connection.

    Args:
        agents: Opens an agent; `None` without an agent.
        closing: Set to end every conversation.
    """

    def __init__(self, agents: Agents | None, closing: asyncio.Event) -> None:
        self._agents = agents
        self._closing = closing
        self._talks: dict[str, _ConsoleTalk] = {}
        self._clients = RunningSessions()
        self._tasks: set[asyncio.Task[Any]] = set()

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
            is_resumed = known is not None and not known.is_over
            talk = known if known is not None and is_resumed else self._start()
            async with self._clients.begin("", talk.id) as wanted:
                await talk.serve(websocket, wanted, is_resumed=is_resumed)
        except CloseError as closed:
            await close(websocket, closed)
        finally:
            self._tasks.discard(task)

    def _start(self) -> _ConsoleTalk:
        """Start a conversation."""
        if self._agents is None:
            raise CloseError(REFUSED, "no_agent", "There is no agent to talk to here")
        if self._closing.is_set():
            raise _closing_error()
        if len(self._talks) >= _MAX_TALKS:
            raise CloseError(BUSY, "limit", "Too many conversations: end one, or try again later")
        talk = _ConsoleTalk(self._agents, self._closing)
        self._talks[talk.id] = talk
        task = asyncio.create_task(talk.run(), name="console:talk")
        self._tasks.add(task)

        def forget(ended: asyncio.Task[None]) -> None:
            del self._talks[talk.id]
            self._tasks.discard(ended)

        task.add_done_callback(forget)
        return talk


class _ConsoleTalk(Talk):
    """One conversation; it waits for a client whose connection was lost."""

    def __init__(self, agents: Agents, closing: asyncio.Event) -> None:
        super().__init__(frame_seconds=_FRAME_SECONDS)
        self.use(_MICROPHONE, _SPEAKER, unsent_seconds=_UNSENT_SECONDS)
        self.id = secrets.token_urlsafe(16)
        self._agents = agents
        self._closing = closing
        self._is_open = asyncio.Event()
        self._over: asyncio.Future[CloseError] = asyncio.get_running_loop().create_future()
        self._patience: asyncio.TimerHandle | None = None
        self._is_speaking = False

    def __str__(self) -> str:
        return "The agent of a conversation"

    @property
    def is_over(self) -> bool:
        """Return whether the conversation is closed to clients."""
        return self._over.done()

    async def run(self) -> None:
        """Run the agent until it ends, the console closes or the client does not reconnect."""
        try:
            await run_until_first([self._close(), self._wait_until_over(), self._converse()])
        except CloseError as closed:
            self._end(closed)
        finally:
            self._stop_waiting()

    async def serve(self, websocket: WebSocket, wanted: asyncio.Event, *, is_resumed: bool) -> None:
        """Serve a client until it leaves, or another connection is `wanted` in its place.

        Raises:
            CloseError: The server closes the connection.
        """
        self._stop_waiting()
        try:
            await run_until_first(
                [
                    self._wait_until_over(),
                    leave(wanted, REFUSED),
                    self.listen(websocket),
                    self._send_from_ready(websocket, is_resumed=is_resumed),
                ]
            )
        except WebSocketDisconnect as left:
            if left.code not in _LOST:
                self._end(CloseError(ENDED, "left", "The client has disconnected"))
        except CloseError as closed:
            if not wanted.is_set():
                self._end(closed)
            raise
        finally:
            self._wait_for_client()

    def _end(self, closed: CloseError) -> None:
        if not self._over.done():
            self._over.set_result(closed)

    async def _wait_until_over(self) -> NoReturn:
        raise await asyncio.shield(self._over)

    async def _close(self) -> NoReturn:
        await self._closing.wait()
        raise _closing_error()

    def _wait_for_client(self) -> None:
        if self._over.done():
            return
        late = CloseError(ENDED, "left", "The client did not reconnect")
        self._patience = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._end, late)
        if self._is_speaking:  # then the agent answers the audio that it has received
            self.hear_message(wire.AudioEnd(type="audio_end"))

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def hear_sound(self, frame: bytes) -> None:
        """Pass audio on to the agent."""
        super().hear_sound(frame)
        self._is_speaking = True

    def hear_message(self, given: wire.ClientMessage) -> None:
        """Pass a message on to the agent."""
        super().hear_message(given)
        self._is_speaking = self._is_speaking and not isinstance(given, wire.AudioEnd)

    async def _send_from_ready(self, websocket: WebSocket, *, is_resumed: bool) -> NoReturn:
        await self._is_open.wait()
        ready = wire.message("ready", conversation=self.id, resumed=is_resumed)
        await send_item(websocket, ready)
        await self.send(websocket)

    def drop_unsent(self, unsent: BoundedQueue[Any]) -> None:
        """Drop the oldest audio: the client may be away for a while."""
        if not unsent.remove_oldest(lambda item: isinstance(item, bytes)):
            super().drop_unsent(unsent)

    async def _converse(self) -> NoReturn:
        try:
            async with self._agents() as agent:
                self._is_open.set()
                await self.converse(agent)
        except Exception as error:
            raise close_error(error, self) from error
        raise CloseError(ENDED, "ended", "The conversation has ended")


def _closing_error() -> CloseError:
    return CloseError(LEAVING, "closing", "The console is shutting down")
