"""One connection: receives, records and checks the client's messages, and plays the scenario."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from websockets.exceptions import ConnectionClosed

from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.simulator import protocol
from leonidas_tools.simulator.protocol import Breach, ProtocolChecker
from leonidas_tools.simulator.recording import (
    ConnectionRecord,
    ContextUpdate,
    IssuedHandle,
    Outcome,
    RecordedMessage,
    Refusal,
    Violation,
)
from leonidas_tools.simulator.resumption import HandleRefusedError
from leonidas_tools.simulator.session import ClientLeftError, SimulatedSession, StepFailedError
from leonidas_tools.simulator.user_input import inputs_in
from leonidas_tools.simulator.wire import Message, encode, fields, objects, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leonidas_tools.simulator.generations import Quirks
    from leonidas_tools.simulator.listener import Listener, PausableConnection, PlannedRefusal
    from leonidas_tools.simulator.observation import Record
    from leonidas_tools.simulator.recording import CallRecord
    from leonidas_tools.simulator.resumption import Session, SessionRegistry
    from leonidas_tools.simulator.scenario import Play

_logger = visible_logger(__name__)

_LEAVING_SECONDS: Final = 1.0
_REASON_BYTES: Final = 123
_ROUND_TRIPS: Final = 3
_NOTICE_SECONDS: Final = 10.0
_DEADLINE_EXPIRED: Final = "Deadline expired before operation could complete."


class ScenarioOverError(Exception):
    """Raised when the scenario has no script for another connection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerContext:
    """The state that all connections of one server share."""

    strict: bool
    """True if a violation closes the connection."""
    speed: float
    """Speed of pauses: 1 as written, 2 twice as fast, `math.inf` without pauses."""
    quirks: Quirks
    record: Record
    sessions: SessionRegistry
    listener: Listener
    next_play: Callable[[], Play]
    """Function that returns the play of the next connection, or raises `ScenarioOverError`."""
    open_sessions: set[SimulatedSession] = field(default_factory=set)


class ServerConnection:
    """Sends the messages of one connection and ends it; connections are counted from 1."""

    def __init__(
        self, number: int, websocket: PausableConnection, *, context: ServerContext
    ) -> None:
        self._number = number
        self._websocket = websocket
        self._context = context
        self._session: Session | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False

    @property
    def ended(self) -> bool:
        """Return whether the server has ended the connection."""
        return self._ended

    def set_session(self, session: Session) -> None:
        """Set the session that the connection belongs to."""
        self._session = session

    def cancel_pending(self) -> None:
        """Cancel all pending sends."""
        for task in self._tasks:
            task.cancel()

    def note(self, sender: Literal["client", "server"], data: Any) -> None:
        """Record a message in either direction."""
        message = RecordedMessage(
            connection=self._number, sender=sender, at=time.monotonic(), data=data
        )
        self._context.record.messages.append(message)
        self._context.record.changed()

    async def send(self, message: Message | str) -> None:
        """Send a message, or a raw frame."""
        text = message if isinstance(message, str) else encode(message)
        self.note("server", message)
        await self._websocket.send(text, text=self._context.quirks.text_frames)

    def confirm_cancellation(self, ids: tuple[str, ...]) -> None:
        """Record when the client has received the cancellation of these calls."""
        self._start(self._await_confirmation(ids))

    async def _await_confirmation(self, ids: tuple[str, ...]) -> None:
        # An answer sent before the cancellation arrives is allowed. The pong follows everything
        # the client sent before the ping, but its network layer is ahead of the agent.
        for _ in range(_ROUND_TRIPS):
            await (await self._websocket.ping())
        self._context.record.ledger.cancellation_seen(self._number, ids)
        self._context.record.changed()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_until_closed(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Ending the connection, and network faults.

    async def close(self, code: int, reason: str) -> None:
        """Close the connection with a closing handshake."""
        self._ended = True
        short = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
        await self._websocket.close(code, short)

    def close_later(self, seconds: float, code: int, reason: str) -> None:
        """Close the connection with a closing handshake after some seconds."""
        self._start(self._close_after(seconds, code, reason))

    async def _close_after(self, seconds: float, code: int, reason: str) -> None:
        await asyncio.sleep(seconds)
        await self.close(code, reason)

    def end_session_after(self, seconds: float) -> None:
        """End the session after some seconds: that is announced, and no handle resumes it."""
        self._start(self._end_session_after(seconds))

    async def _end_session_after(self, seconds: float) -> None:
        notice = min(seconds, _NOTICE_SECONDS)
        await asyncio.sleep(seconds - notice)
        await self.send({"goAway": {"timeLeft": f"{notice:g}s"}})
        await asyncio.sleep(notice)
        self.expire_handles()
        await self.close(protocol.INTERNAL, _DEADLINE_EXPIRED)

    def drop(self) -> None:
        """Drop the connection without a close frame."""
        self._ended = True
        self._websocket.transport.abort()

    def ignore_client(self, seconds: float | None) -> None:
        """Ignore the client for some seconds; for `None`, until the connection ends."""
        self._websocket.pause_input()
        if seconds is not None:
            self._start(self._resume_input_after(seconds))

    async def _resume_input_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._websocket.resume_input()

    # State shared with other connections.

    def new_handle(self) -> str:
        """Return a new handle."""
        return self._context.sessions.new_handle(self._own_session)

    def issue_handle(self, handle: str) -> None:
        """Register a handle of this session."""
        session = self._own_session
        self._context.sessions.issue(handle, session)
        issued = IssuedHandle(connection=self._number, session=session.number, handle=handle)
        self._context.record.handles.append(issued)

    def expire_handles(self) -> None:
        """Expire all handles of this session."""
        self._context.sessions.expire(self._own_session)

    def refuse_connections(self, count: int, refusal: PlannedRefusal) -> None:
        """Refuse the next `count` connections."""
        self._context.listener.refuse(count, refusal)

    def stop_listening(self, seconds: float) -> None:
        """Stop listening for new connections for some seconds."""
        self._context.listener.pause_for(seconds)

    @property
    def _own_session(self) -> Session:
        assert self._session is not None
        return self._session


async def _until_closed(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(ConnectionClosed):
        await work


class _RefusedConnectionError(Exception):
    """Raised to refuse a connection; has the close code and the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class ConnectionHandler:
    """Serves one connection, from its setup to its end; connections are counted from 1."""

    def __init__(
        self, number: int, websocket: PausableConnection, *, context: ServerContext
    ) -> None:
        self._number = number
        self._websocket = websocket
        self._context = context
        self._record = context.record
        self._connection = ServerConnection(number, websocket, context=context)
        self._checker = ProtocolChecker(number, quirks=context.quirks, ledger=context.record.ledger)
        self._session: Session | None = None
        self._refused = self._sent_video = False

    async def run(self) -> None:
        """Serve the client until it leaves."""
        session: SimulatedSession | None = None
        playing: asyncio.Task[None] | None = None
        try:
            with contextlib.suppress(ConnectionClosed):
                if begun := await self._begin():
                    session, play = begun
                    self._context.open_sessions.add(session)
                    playing = asyncio.create_task(self._play(play, session))
                    await self._read(session)
        finally:
            await self._end(session, playing)

    async def _begin(self) -> tuple[SimulatedSession, Play] | None:
        try:
            return await self._set_up()
        except _RefusedConnectionError as refused:
            await self._refuse(refused)
        except ScenarioOverError as over:
            self._refused = True
            self._finish("failed", str(over))
            await self._connection.close(protocol.POLICY, str(over))
        return None

    async def _end(
        self, session: SimulatedSession | None, playing: asyncio.Task[None] | None
    ) -> None:
        self._connection.cancel_pending()
        if self._session is not None:
            now = asyncio.get_running_loop().time()
            self._context.sessions.left(self._session, now=now)
        if session is None or playing is None:
            if not self._refused:
                self._finish("left", "the client disconnected before the session began")
            return
        self._context.open_sessions.discard(session)
        session.leave()
        # A scenario in Python may be busy with other work.
        await asyncio.wait({playing}, timeout=_LEAVING_SECONDS)
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing

    # Setting up.

    async def _set_up(self) -> tuple[SimulatedSession, Play] | None:
        message = await self._receive()
        if message is None:
            return None
        if self._context.strict and (failure := self._record.failure):
            # A final close code: the client must not reconnect to a scenario that has failed.
            # A server that is not strict continues: it has other clients.
            raise _RefusedConnectionError(protocol.POLICY, f"scenario failed: {failure}")
        kind, body = message
        if kind != "setup":
            await self._report(
                Breach(reason="the first message must be the setup", data={kind: body})
            )
            return None
        for breach in self._checker.check_setup(body, self._path):
            if not await self._report(breach):
                return None
        admitted = await self._admit(body)
        if admitted is None:
            return None
        play = self._context.next_play()
        origin, self._session = admitted
        if origin.resumed_from is not None:
            self._checker.note_resumption(each.id for each in self._calls_of(self._session))
        self._connection.set_session(self._session)
        self._record.setups.append(body)
        self._record.connections.append(origin)
        self._record.declared[self._number] = protocol.functions_in(body.get("tools"))
        await self._connection.send({"setupComplete": {}})
        session = SimulatedSession(
            origin=origin,
            setup=body,
            connection=self._connection,
            ledger=self._record.ledger,
            speed=self._context.speed,
            quirks=self._context.quirks,
        )
        self._limit_session(body)
        return session, play

    @property
    def _path(self) -> str:
        request = self._websocket.request
        return "" if request is None else request.path

    def _calls_of(self, session: Session) -> list[CallRecord]:
        """Return the calls that a session has made, and whose ids the client knows."""
        ledger = self._record.ledger
        calls = [call for number in session.connections for call in ledger.of(number)]
        return [call for call in calls if call.id_sent]

    def _limit_session(self, setup: Message, *, video: bool = False) -> None:
        """End the session after its time, unless its context is compressed."""
        quirks, session = self._context.quirks, self._session
        limit = quirks.video_session_seconds if video else quirks.session_seconds
        if session is None or limit is None or "contextWindowCompression" in setup:
            return
        left = session.begun_at + limit - asyncio.get_running_loop().time()
        self._connection.end_session_after(max(left, 0.0))

    async def _admit(self, setup: Message) -> tuple[ConnectionRecord, Session] | None:
        """Return the record and the session of a connection; None if a violation closed it."""
        context, number = self._context, self._number
        if refusal := context.listener.refusal_at_setup():
            raise _RefusedConnectionError(
                refusal.close_code, refusal.reason or "the server is unavailable"
            )
        handle = fields(setup.get("sessionResumption")).get("handle")
        if not handle:
            now = asyncio.get_running_loop().time()
            session = context.sessions.begin(number, now=now)
            return ConnectionRecord(number=number, session=session.number), session
        now = asyncio.get_running_loop().time()
        try:
            session = context.sessions.find(str(handle), now=now)
        except HandleRefusedError as error:
            raise _RefusedConnectionError(context.quirks.unknown_handle_code, str(error)) from None
        before = context.sessions.open_connection_of(session)
        if before is not None:
            reason = (
                f"session {session.number} is resumed while its connection {before} is still open"
            )
            data = {"setup": setup}
            breach = Breach(reason=reason, data=data, code=protocol.INTERNAL)
            if not await self._report(breach):
                return None
        record = ConnectionRecord(
            number=number,
            session=session.number,
            resumed_from=session.connections[-1],
            handle=str(handle),
            lost_calls=tuple(each.id or "" for each in self._calls_of(session) if each.pending),
        )
        context.sessions.resume(session, number)
        return record, session

    async def _refuse(self, refused: _RefusedConnectionError) -> None:
        self._refused = True
        refusal = Refusal(
            stage="setup", code=refused.code, reason=refused.reason, connection=self._number
        )
        self._record.refusals.append(refusal)
        self._record.changed()
        await self._connection.close(refused.code, refused.reason)

    # Reading.

    async def _read(self, session: SimulatedSession) -> None:
        while True:
            message = await self._receive()
            if message is None:
                continue
            kind, body = message
            for breach in self._checker.check(kind, body):
                await self._report(breach)
            await self._take(kind, body, session)
            self._record.changed()

    async def _take(self, kind: str, body: Message, session: SimulatedSession) -> None:
        inputs = tuple(inputs_in(kind, body))
        self._record.add_inputs(self._number, inputs)
        if not self._sent_video and any(each.kind == "video" for each in inputs):
            self._sent_video = True
            self._limit_session(session.setup, video=True)
        update = self._update_in(body) if kind == "contextUpdate" else None
        session.receive(inputs, update)
        if kind == "toolResponse":
            await session.answered(
                response.get("id") for response in objects(body.get("functionResponses"))
            )

    def _update_in(self, body: Message) -> ContextUpdate:
        parts = objects(fields(body.get("systemInstruction")).get("parts"))
        instruction = "".join(str(part.get("text", "")) for part in parts)
        tools = None
        if "tools" in body:
            tools = protocol.functions_in(fields(body["tools"]).get("tools"))
            self._record.declared[self._number] = tools
        update = ContextUpdate(
            connection=self._number,
            at=time.monotonic(),
            system_instruction=instruction if "systemInstruction" in body else None,
            tools=tools,
        )
        self._record.context_updates.append(update)
        return update

    async def _receive(self) -> tuple[str, Message] | None:
        """Return the next message; None if it is malformed."""
        frame = await self._websocket.recv()
        try:
            message = parse(frame)
        except ValueError as error:
            self._connection.note("client", frame)
            await self._report(Breach(reason=str(error), data=frame))
            return None
        self._connection.note("client", message)
        await self._check_size(frame)
        try:
            return protocol.field_of(message)
        except ValueError as error:
            await self._report(Breach(reason=str(error), data=message))
            return None

    async def _check_size(self, frame: str | bytes) -> None:
        limit = self._context.quirks.max_message_bytes
        size = len(frame.encode() if isinstance(frame, str) else frame)
        if limit is not None and size > limit:
            reason = f"a message of {size} bytes; at most {limit} are allowed"
            await self._report(Breach(reason=reason, data=None, code=protocol.TOO_BIG))

    async def _report(self, breach: Breach) -> bool:
        """Record a violation, close the connection if strict, and return whether it continues."""
        violation = Violation(
            connection=self._number,
            at=time.monotonic(),
            reason=breach.reason,
            close_code=breach.code,
            data=breach.data,
        )
        self._record.violations.append(violation)
        self._record.changed()
        _logger.warning("Gemini Live protocol violation: %s", violation)
        if self._context.strict:
            await self._connection.close(breach.code, breach.words or breach.reason)
        return not self._context.strict

    # Playing.

    async def _play(self, play: Play, session: SimulatedSession) -> None:
        try:
            await play(session)
        except (ClientLeftError, ConnectionClosed) as error:
            self._finish("left", f"the client disconnected: {error}")
        except (StepFailedError, AssertionError) as error:
            message = str(error) or repr(error)
            if isinstance(error, AssertionError):
                message = f"{message} ({_place_of(error)})"
            if not self._context.strict:  # not raised at the exit, and a close frame is short
                _logger.warning("The scenario has failed: %s", message)
            await self._fail(message, f"scenario failed: {message}")
        except Exception as error:
            _logger.exception("The scenario failed")
            await self._fail(repr(error), f"scenario failed: {error!r}")
        except asyncio.CancelledError:
            self._finish("left", "the client disconnected while the scenario was running")
            raise
        else:
            self._finish("played")

    async def _fail(self, message: str, reason: str) -> None:
        self._finish("failed", message)
        await self._connection.close(protocol.STEP_FAILED, reason)

    def _finish(self, status: Literal["played", "failed", "left"], message: str = "") -> None:
        outcome = Outcome(connection=self._number, status=status, message=message)
        self._record.outcomes.append(outcome)
        self._record.changed()


def _place_of(error: AssertionError) -> str:
    """Return the file and line of a failed assertion."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{Path(last.filename).name}:{last.lineno}: {last.line}"
