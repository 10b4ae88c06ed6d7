"""One connection: reads what the client sends, records and checks it, and plays the scenario."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from websockets.exceptions import ConnectionClosed

from leonidas_tools.live.simulator import protocol
from leonidas_tools.live.simulator.exchange import ClientLeftError, Pace, StepFailedError
from leonidas_tools.live.simulator.ledger import CallLedger
from leonidas_tools.live.simulator.recording import Outcome, RecordedMessage, Violation
from leonidas_tools.live.simulator.session import SimulatedSession
from leonidas_tools.live.simulator.wire import Message, encode, objects, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.asyncio.server import ServerConnection

    from leonidas_tools.live.simulator.protocol import Quirks
    from leonidas_tools.live.simulator.scenario import Play

_logger = logging.getLogger(__name__)

SCENARIO_FAILED: Final = 1011
_LEAVING_SECONDS: Final = 1.0
_REASON_BYTES: Final = 123
_ROUND_TRIPS: Final = 3


@dataclass(kw_only=True, slots=True)
class Record:
    """All that was seen; written by the server's thread only.

    Args:
        changed: Called after each change.
    """

    changed: Callable[[], None]
    messages: list[RecordedMessage] = field(default_factory=list)
    setups: list[Message] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    ledger: CallLedger = field(default_factory=CallLedger)
    opened: int = 0
    closed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Conduct:
    """How connections are treated.

    Args:
        strict: Close the connection at a violation.
        pace: How fast to play.
        quirks: How this server behaves.
    """

    strict: bool
    pace: Pace
    quirks: Quirks


class Connection:
    """One client's connection, from its setup to its end."""

    def __init__(
        self, number: int, websocket: ServerConnection, *, record: Record, conduct: Conduct
    ) -> None:
        self._number = number
        self._websocket = websocket
        self._record = record
        self._conduct = conduct
        self._session: SimulatedSession | None = None
        self._telling: set[asyncio.Task[None]] = set()

    async def run(self, play: Play) -> None:
        """Serves the client until it leaves.

        Args:
            play: The scenario for this connection.
        """
        playing: asyncio.Task[None] | None = None
        try:
            with contextlib.suppress(ConnectionClosed):
                self._session = await self._set_up()
                if self._session is not None:
                    playing = asyncio.create_task(self._play(play, self._session))
                    await self._read(self._session)
        finally:
            await self._end(playing)

    async def _end(self, playing: asyncio.Task[None] | None) -> None:
        for task in self._telling:
            task.cancel()
        if playing is None or self._session is None:
            self._finish("left", "the client left before the session began")
            return
        self._session.leave()
        # A scenario in Python may be busy with something of its own.
        await asyncio.wait({playing}, timeout=_LEAVING_SECONDS)
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing

    # Setting up.

    async def _set_up(self) -> SimulatedSession | None:
        message = await self._receive()
        if message is None:
            return None
        kind, body = message
        if kind != "setup":
            await self._violation("the first message is the setup", {kind: body})
            return None
        if complaint := protocol.setup_complaint(body):
            await self._violation(complaint, {kind: body})
            if self._conduct.strict:
                return None
        self._record.setups.append(body)
        await self.send({"setupComplete": {}})
        return SimulatedSession(
            number=self._number,
            setup=body,
            line=self,
            ledger=self._record.ledger,
            pace=self._conduct.pace,
            default_behavior=self._conduct.quirks.default_behavior,
        )

    # Reading.

    async def _read(self, session: SimulatedSession) -> None:
        while True:
            message = await self._receive()
            if message is None:
                continue
            kind, body = message
            await self._check(kind, body)
            session.receive(kind, body)
            self._record.changed()

    async def _receive(self) -> tuple[str, Message] | None:
        """The next message, or None if it cannot be read."""
        frame = await self._websocket.recv()
        try:
            message = parse(frame)
        except ValueError as error:
            self._note("client", frame)
            await self._violation(str(error), frame)
            return None
        self._note("client", message)
        await self._check_size(frame)
        try:
            return protocol.field_of(message)
        except ValueError as error:
            await self._violation(str(error), message)
            return None

    async def _check_size(self, frame: str | bytes) -> None:
        limit = self._conduct.quirks.max_message_bytes
        size = len(frame.encode() if isinstance(frame, str) else frame)
        if limit is not None and size > limit:
            text = f"a message of {size} bytes; at most {limit} are allowed"
            await self._violation(text, None, protocol.TOO_BIG)

    async def _check(self, kind: str, body: Message) -> None:
        data = {kind: body}
        if kind == "setup":
            await self._violation("a second setup", data)
        for complaint in protocol.complaints(kind, body, self._conduct.quirks):
            await self._violation(complaint, data)
        if kind == "toolResponse":
            for response in objects(body.get("functionResponses")):
                await self._check_response(response)
        if kind == "realtimeInput" and self._audio_is_blocked(body):
            text = "audio while a BLOCKING call is unanswered"
            await self._violation(text, data, protocol.POLICY)

    async def _check_response(self, response: Message) -> None:
        complaint = protocol.response_complaint(response) or self._record.ledger.answered(
            self._number, response
        )
        if complaint:
            await self._violation(complaint, response)

    def _audio_is_blocked(self, body: Message) -> bool:
        return (
            self._conduct.quirks.audio_blocked_while_pending
            and bool(body.keys() & {"audio", "mediaChunks"})
            and any(call.pending and call.blocking for call in self._record.ledger.of(self._number))
        )

    async def _violation(self, reason: str, data: Any, code: int = protocol.INVALID) -> None:
        violation = Violation(
            connection=self._number,
            at=time.monotonic(),
            reason=reason,
            close_code=code,
            data=data,
        )
        self._record.violations.append(violation)
        self._record.changed()
        _logger.warning("Gemini Live protocol broken: %s", violation)
        if self._conduct.strict:
            await self.close(code, reason)

    # Playing.

    async def _play(self, play: Play, session: SimulatedSession) -> None:
        try:
            await play(session)
        except (ClientLeftError, ConnectionClosed) as error:
            self._finish("left", f"the client left: {error}")
        except (StepFailedError, AssertionError) as error:
            await self._fail(str(error) or repr(error))
        except Exception as error:
            _logger.exception("The scenario failed")
            await self._fail(repr(error))
        except asyncio.CancelledError:
            self._finish("left", "the client left while the scenario was busy with its own")
            raise
        else:
            self._finish("played")

    async def _fail(self, message: str) -> None:
        self._finish("failed", message)
        await self.close(SCENARIO_FAILED, f"scenario failed: {message}")

    def _finish(self, status: Literal["played", "failed", "left"], message: str = "") -> None:
        outcome = Outcome(connection=self._number, status=status, message=message)
        self._record.outcomes.append(outcome)
        self._record.changed()

    # The line that the session speaks on.

    async def send(self, message: Message | str) -> None:
        """Sends a message, or a frame as it is."""
        text = message if isinstance(message, str) else encode(message)
        self._note("server", message)
        await self._websocket.send(text, text=self._conduct.quirks.text_frames)

    def told(self, ids: tuple[str, ...]) -> None:
        """Has it noted when the client has seen what was sent so far."""
        task = asyncio.create_task(self._await_told(ids))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _await_told(self, ids: tuple[str, ...]) -> None:
        # An answer that crosses a cancellation on the way is nobody's fault. The pong follows what
        # the client sent before the ping came, but its network layer is ahead of the agent.
        with contextlib.suppress(ConnectionClosed):
            for _ in range(_ROUND_TRIPS):
                await (await self._websocket.ping())
            self._record.ledger.told(self._number, ids)
            self._record.changed()

    async def close(self, code: int, reason: str) -> None:
        """Ends the connection in good order."""
        short = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
        await self._websocket.close(code, short)

    def drop(self) -> None:
        """Ends the connection without a word."""
        self._websocket.transport.abort()

    def _note(self, sender: Literal["client", "server"], data: Any) -> None:
        message = RecordedMessage(
            connection=self._number, sender=sender, at=time.monotonic(), data=data
        )
        self._record.messages.append(message)
        self._record.changed()
