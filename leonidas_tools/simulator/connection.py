"""One connection: reads what the client sends, records and checks it, and plays the scenario."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final, Literal

from websockets.exceptions import ConnectionClosed

from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.simulator import protocol
from leonidas_tools.simulator.exchange import ClientLeftError, StepFailedError
from leonidas_tools.simulator.house import ScenarioOverError
from leonidas_tools.simulator.line import ConnectionLine
from leonidas_tools.simulator.received import ContextUpdate, Refusal
from leonidas_tools.simulator.reception import RefusedError, admit
from leonidas_tools.simulator.recording import Outcome, Violation
from leonidas_tools.simulator.referee import Breach, Referee
from leonidas_tools.simulator.session import SimulatedSession
from leonidas_tools.simulator.user_input import inputs_in
from leonidas_tools.simulator.wire import Message, fields, objects, parse

if TYPE_CHECKING:
    from leonidas_tools.simulator.hearing import HearingConnection
    from leonidas_tools.simulator.house import House
    from leonidas_tools.simulator.received import ConnectionRecord
    from leonidas_tools.simulator.resumption import Session
    from leonidas_tools.simulator.scenario import Play

_logger = visible_logger(__name__)

_LEAVING_SECONDS: Final = 1.0


class Connection:
    """One client's connection, from its setup to its end.

    Args:
        number: The connection, counted from 1.
        websocket: The connection itself.
        house: What all connections share.
    """

    def __init__(self, number: int, websocket: HearingConnection, *, house: House) -> None:
        self._number = number
        self._websocket = websocket
        self._house = house
        self._record = house.record
        self._line = ConnectionLine(number, websocket, house=house)
        self._referee = Referee(number, quirks=house.conduct.quirks, ledger=house.record.ledger)
        self._belongs_to: Session | None = None
        self._turned_away = False

    async def run(self) -> None:
        """Serve the client until it leaves."""
        session: SimulatedSession | None = None
        playing: asyncio.Task[None] | None = None
        try:
            with contextlib.suppress(ConnectionClosed):
                if begun := await self._begin():
                    session, play = begun
                    playing = asyncio.create_task(self._play(play, session))
                    await self._read(session)
        finally:
            await self._end(session, playing)

    async def _begin(self) -> tuple[SimulatedSession, Play] | None:
        try:
            return await self._set_up()
        except RefusedError as refused:
            await self._refuse(refused)
        except ScenarioOverError as over:
            self._turned_away = True
            self._finish("failed", str(over))
            await self._line.close(protocol.POLICY, str(over))
        return None

    async def _end(
        self, session: SimulatedSession | None, playing: asyncio.Task[None] | None
    ) -> None:
        self._line.release()
        if self._belongs_to is not None:
            now = asyncio.get_running_loop().time()
            self._house.book.left(self._belongs_to, now=now)
        if session is None or playing is None:
            if not self._turned_away:
                self._finish("left", "the client left before the session began")
            return
        session.leave()
        # A scenario in Python may be busy with something of its own.
        await asyncio.wait({playing}, timeout=_LEAVING_SECONDS)
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing

    # Setting up.

    async def _set_up(self) -> tuple[SimulatedSession, Play] | None:
        message = await self._receive()
        if message is None:
            return None
        if failure := self._record.failure:
            # Final, so that a client does not redial a scenario that cannot go on.
            raise RefusedError(protocol.POLICY, f"scenario failed: {failure}")
        kind, body = message
        if kind != "setup":
            await self._report(Breach(reason="the first message is the setup", data={kind: body}))
            return None
        for breach in self._referee.judge_setup(body):
            if not await self._report(breach):
                return None
        admitted = await admit(self._number, body, house=self._house, report=self._report)
        if admitted is None:
            return None
        play = self._house.next_play()
        origin, self._belongs_to = admitted
        if origin.resumed_from is not None:
            self._referee.resumed()
        self._line.belongs_to(self._belongs_to)
        self._record.setups.append(body)
        self._record.connections.append(origin)
        self._record.declared[self._number] = protocol.functions_in(body.get("tools"))
        await self._line.send({"setupComplete": {}})
        return self._session_of(origin, body), play

    def _session_of(self, origin: ConnectionRecord, setup: Message) -> SimulatedSession:
        return SimulatedSession(
            origin=origin,
            setup=setup,
            line=self._line,
            ledger=self._record.ledger,
            pace=self._house.conduct.pace,
            quirks=self._house.conduct.quirks,
        )

    async def _refuse(self, refused: RefusedError) -> None:
        self._turned_away = True
        refusal = Refusal(
            stage="setup", code=refused.code, reason=refused.reason, connection=self._number
        )
        self._record.refusals.append(refusal)
        self._record.changed()
        await self._line.close(refused.code, refused.reason)

    # Reading.

    async def _read(self, session: SimulatedSession) -> None:
        while True:
            message = await self._receive()
            if message is None:
                continue
            kind, body = message
            for breach in self._referee.judge(kind, body):
                await self._report(breach)
            await self._take(kind, body, session)
            self._record.changed()

    async def _take(self, kind: str, body: Message, session: SimulatedSession) -> None:
        inputs = tuple(inputs_in(kind, body))
        self._record.take(self._number, inputs)
        update = self._update_in(body) if kind == "contextUpdate" else None
        session.receive(inputs, update)
        if kind == "toolResponse":
            await session.answered()

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
        """Return the next message, or None if it cannot be read."""
        frame = await self._websocket.recv()
        try:
            message = parse(frame)
        except ValueError as error:
            self._line.note("client", frame)
            await self._report(Breach(reason=str(error), data=frame))
            return None
        self._line.note("client", message)
        await self._check_size(frame)
        try:
            return protocol.field_of(message)
        except ValueError as error:
            await self._report(Breach(reason=str(error), data=message))
            return None

    async def _check_size(self, frame: str | bytes) -> None:
        limit = self._house.conduct.quirks.max_message_bytes
        size = len(frame.encode() if isinstance(frame, str) else frame)
        if limit is not None and size > limit:
            reason = f"a message of {size} bytes; at most {limit} are allowed"
            await self._report(Breach(reason=reason, data=None, code=protocol.TOO_BIG))

    async def _report(self, breach: Breach) -> bool:
        """Keep a breach, and closes the connection for it; returns whether it goes on."""
        violation = Violation(
            connection=self._number,
            at=time.monotonic(),
            reason=breach.reason,
            close_code=breach.code,
            data=breach.data,
        )
        self._record.violations.append(violation)
        self._record.changed()
        _logger.warning("Gemini Live protocol broken: %s", violation)
        if self._house.conduct.strict:
            await self._line.close(breach.code, breach.reason)
        return not self._house.conduct.strict

    # Playing.

    async def _play(self, play: Play, session: SimulatedSession) -> None:
        try:
            await play(session)
        except (ClientLeftError, ConnectionClosed) as error:
            self._finish("left", f"the client left: {error}")
        except (StepFailedError, AssertionError) as error:
            message = str(error) or repr(error)
            await self._fail(message, f"scenario failed: {message}")
        except Exception as error:
            _logger.exception("The scenario failed")
            await self._fail(repr(error), f"scenario failed: {error!r}")
        except asyncio.CancelledError:
            self._finish("left", "the client left while the scenario was busy with its own")
            raise
        else:
            self._finish("played")

    async def _fail(self, message: str, reason: str) -> None:
        self._finish("failed", message)
        await self._line.close(protocol.INTERNAL, reason)

    def _finish(self, status: Literal["played", "failed", "left"], message: str = "") -> None:
        outcome = Outcome(connection=self._number, status=status, message=message)
        self._record.outcomes.append(outcome)
        self._record.changed()
