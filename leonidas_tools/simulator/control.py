"""Control a running server: its time, its listener, its connections."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator.door import Refusing
from leonidas_tools.simulator.observation import Observation
from leonidas_tools.simulator.protocol import INTERNAL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

    from leonidas_tools.simulator.elastic_loop import ElasticEventLoop
    from leonidas_tools.simulator.house import House


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """The parts of a running server.

    Args:
        loop: The server's loop.
        house: What its connections share.
        stopping: Set when it is to stop.
    """

    loop: ElasticEventLoop
    house: House
    stopping: asyncio.Event


class Control(Observation):
    """Observes a running server, and interferes with it; from any thread.

    Args:
        scripts: How many connections the scenario has.
    """

    def __init__(self, *, scripts: int) -> None:
        super().__init__(scripts=scripts)
        self._running: Running | None = None
        self._thread: threading.Thread | None = None

    @property
    def _the_running(self) -> Running:
        if self._running is None:
            raise SimulatorError("The simulator is not running; use it with `with`")
        return self._running

    def advance(self, seconds: float) -> Future[None]:
        """Move the server's time on: pauses, and what `goAway` announced, pass at once.

        Time runs from one deadline to the next, and only while the server has nothing else to do;
        see `ElasticEventLoop`. The waits of a scenario for the client are in real time.

        Args:
            seconds: By how much.

        Returns:
            A future that is done once the time has passed; waiting for it is optional.
        """
        return self._the_running.loop.advance(seconds)

    def refuse_connections(
        self,
        count: int = 1,
        *,
        http_status: int | None = None,
        close_code: int = INTERNAL,
        reason: str = "",
    ) -> None:
        """Turn away connections to come; `refusals` tells of them, and none takes a script.

        Args:
            count: How many.
            http_status: With this status at the HTTP request; None to refuse after the setup.
            close_code: With this code after the setup.
            reason: What to say.
        """
        refusing = Refusing(http_status=http_status, close_code=close_code, reason=reason)

        self._do(self._the_running.house.door.refuse, count, refusing)

    def pause_listening(self) -> None:
        """Stop listening: who connects is refused by the network; open connections stay."""
        self._do(self._the_running.house.door.shut)

    def resume_listening(self) -> None:
        """Listen again, on the same port."""
        self._do(self._the_running.house.door.open)

    def expire_handles(self) -> None:
        """End the life of all handles that were issued so far."""
        self._do(self._the_running.house.book.expire)

    def drop_connections(self) -> None:
        """Drop all connections without a closing frame, as a lost network does."""
        self._do(self._drop_all)

    def _drop_all(self) -> None:
        for websocket in list(self._record.websockets.values()):
            websocket.transport.abort()

    def _do(self, act: Callable[..., Awaitable[None] | None], *arguments: Any) -> None:
        async def do() -> None:
            result = act(*arguments)
            if result is not None:
                await result

        future = asyncio.run_coroutine_threadsafe(do(), self._the_running.loop)
        if threading.current_thread() is not self._thread:  # a scenario in Python may ask, too
            future.result()
