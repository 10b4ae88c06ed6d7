"""Setting up a connection: who is let in, and which session it gets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from leonidas_tools.simulator import protocol
from leonidas_tools.simulator.received import ConnectionRecord
from leonidas_tools.simulator.referee import Breach
from leonidas_tools.simulator.resumption import HandleRefusedError
from leonidas_tools.simulator.wire import Message, fields

if TYPE_CHECKING:
    from leonidas_tools.simulator.house import House
    from leonidas_tools.simulator.resumption import Session


class RefusedError(Exception):
    """Raised when a connection is turned away.

    Args:
        code: The code to close with.
        reason: Why.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Reports(Protocol):
    """The receiver of reports of violations."""

    async def __call__(self, breach: Breach) -> bool:
        """Note a violation; return whether the connection goes on."""


async def admit(
    number: int, setup: Message, *, house: House, report: Reports
) -> tuple[ConnectionRecord, Session] | None:
    """Find the session of a connection; None if it was closed for a breach.

    Args:
        number: The connection, counted from 1.
        setup: What the setup message holds.
        house: What all connections share.
        report: Told of a breach.

    Raises:
        RefusedError: The connection is to be turned away.
    """
    if refusing := house.door.at_setup():
        raise RefusedError(refusing.close_code, refusing.reason or "the server is unavailable")
    handle = fields(setup.get("sessionResumption")).get("handle")
    if not handle:
        session = house.book.begin(number)
        return ConnectionRecord(number=number, session=session.number), session
    now = asyncio.get_running_loop().time()
    try:
        session = house.book.find(str(handle), now=now)
    except HandleRefusedError as error:
        raise RefusedError(house.conduct.quirks.unknown_handle_code, str(error)) from None
    if breach := _resumed_too_early(session, setup, house):
        goes_on = await report(breach)
        if not goes_on:
            return None
    previous = session.connections[-1]
    house.book.resume(session, number)
    record = ConnectionRecord(
        number=number, session=session.number, resumed_from=previous, handle=str(handle)
    )
    return record, session


def _resumed_too_early(session: Session, setup: Message, house: House) -> Breach | None:
    before = house.book.open_connection_of(session)
    if before is None:
        return None
    reason = f"session {session.number} is resumed while its connection {before} is still open"
    return Breach(reason=reason, data={"setup": setup}, code=protocol.INTERNAL)
