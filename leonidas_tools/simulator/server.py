"""A Gemini Live server on loopback, in a thread of its own, that plays a scenario."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Self

from google.genai.errors import APIError
from websockets.exceptions import ConnectionClosed

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator import addressing
from leonidas_tools.simulator.certificate import LoopbackCertificate
from leonidas_tools.simulator.connection import Connection
from leonidas_tools.simulator.control import Control, Running
from leonidas_tools.simulator.door import Door
from leonidas_tools.simulator.elastic_loop import ElasticEventLoop, elastic
from leonidas_tools.simulator.exchange import Pace
from leonidas_tools.simulator.generations import quirks_of
from leonidas_tools.simulator.house import Conduct, House, ScenarioOverError
from leonidas_tools.simulator.resumption import SessionBook
from leonidas_tools.simulator.scenario import Play, Scenario

if TYPE_CHECKING:
    from types import TracebackType

    from google.genai.types import HttpOptions

    from leonidas_tools.simulator.hearing import HearingConnection
    from leonidas_tools.simulator.quirks import Quirks
    from leonidas_tools.simulator.received import Refusal

_LOST = (APIError, ConnectionClosed)


class LiveSimulator(Control):
    """A Gemini Live server on loopback that plays a scenario and records what it sees.

    It runs in its own thread with its own event loop, so that an agent that blocks its loop does
    not block the server. Use it with `with` or `async with`; leaving raises what `check` raises
    if the simulator is strict.

    It is for tests and demonstrations: it listens on loopback only, and does not bound how many
    connections it takes, or how long one says nothing.

    Args:
        scenario: What to play: a scenario, an async function, or the path of a YAML file.
        strict: Close the connection at a violation, as the real server does.
        speed: 1 plays pauses as written, 2 twice as fast, `math.inf` without any.
        generation: Which models' server to be: `2.5`, `3.1`, `3.8-live`, `3.8-thinking` or
            `vertex`; by default the scenario's, otherwise a plain one.
        quirks: How this server behaves, instead of like that of a generation.

    Raises:
        ConfigurationError: The YAML file is wrong.
        SimulatorError: There is no such generation.

    Example:
        >>> from leonidas_tools.simulator import Say
        >>> with LiveSimulator(Scenario([Say("Hello")]), generation="3.1") as simulator:
        ...     simulator.base_url.startswith("https://127.0.0.1:")
        True
    """

    def __init__(
        self,
        scenario: Scenario | Play | Path | str,
        *,
        strict: bool = True,
        speed: float = 1.0,
        generation: str | None = None,
        quirks: Quirks | None = None,
    ) -> None:
        self.scenario = _as_scenario(scenario)
        self.quirks = quirks or quirks_of(generation or self.scenario.generation)
        self._conduct = Conduct(strict=strict, pace=Pace(speed=speed), quirks=self.quirks)
        super().__init__(scripts=len(self.scenario.scripts))
        self._certificate: LoopbackCertificate | None = None
        self._over = Future[None]()
        self._played = 0

    # Life.

    def start(self) -> None:
        """Start the server; returns once it listens."""
        if self._thread is not None:
            raise SimulatorError("The simulator is running already; make a new one")
        self._certificate = LoopbackCertificate()
        listening: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(listening,), name="gemini-live-simulator"
        )
        self._thread.start()
        try:
            listening.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all connections and the server's thread."""
        if self._thread is None or self._certificate is None:
            return
        self._ask_to_stop()
        self._thread.join()
        self._certificate.remove()

    def _ask_to_stop(self) -> None:
        if self._running is not None and not self._running.loop.is_closed():
            self._running.loop.call_soon_threadsafe(self._running.stopping.set)

    def _run(self, listening: Future[None]) -> None:
        try:
            with asyncio.Runner(loop_factory=ElasticEventLoop) as runner:
                runner.run(self._serve(listening))
        finally:
            self._over.set_result(None)

    async def _serve(self, listening: Future[None]) -> None:
        house = self._furnish()
        try:
            await house.door.open()
        except OSError as error:
            listening.set_exception(error)
            return
        loop = elastic(asyncio.get_running_loop())
        self._running = Running(loop=loop, house=house, stopping=asyncio.Event())
        listening.set_result(None)
        await self._running.stopping.wait()
        await house.door.close()

    def _furnish(self) -> House:
        context = self._the_certificate.server_context
        return House(
            conduct=self._conduct,
            record=self._record,
            book=SessionBook(
                handle_seconds=self.quirks.handle_seconds, is_open=self._record.is_open
            ),
            door=Door(self._handle, refused=self._note_refusal, context=context),
            next_play=self._next_play,
        )

    async def _handle(self, websocket: HearingConnection) -> None:
        number = self._record.open(websocket)
        try:
            await Connection(number, websocket, house=self._the_running.house).run()
        finally:
            await websocket.close()
            self._record.close(number)

    def _next_play(self) -> Play:
        self._played += 1
        play = self.scenario.script_for(self._played)
        if play is None:
            count = len(self.scenario.scripts)
            raise ScenarioOverError(f"the scenario has {count} connections, not {self._played}")
        return play

    def _note_refusal(self, refusal: Refusal) -> None:
        self._record.refusals.append(refusal)
        self._record.changed()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        self._check_at_exit(error)

    async def __aenter__(self) -> Self:
        self.start()
        loop = asyncio.get_running_loop()
        if isinstance(loop, ElasticEventLoop):
            loop.keep_pace_with(self._the_running.loop)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The client may live on this loop, which has to run for its connection to end.
        self._ask_to_stop()
        await asyncio.wrap_future(self._over)
        self.stop()
        self._check_at_exit(error)

    def _check_at_exit(self, error: BaseException | None) -> None:
        # A connection that was closed for what went wrong here is not worth showing beside it.
        shown = error is None or isinstance(error, _LOST)
        if shown and self._conduct.strict and not self._reported:
            self.check()

    # What a client needs.

    @property
    def base_url(self) -> str:
        """Return where the server is, as `https://127.0.0.1:PORT`."""
        return f"https://127.0.0.1:{self._the_running.house.door.port}"

    def http_options(self) -> HttpOptions:
        """Options that lead `genai.Client` and `LiveProcessor` here.

        For Vertex's dialect, give the client `vertexai=True` and any API key as well.

        Example:
            >>> with LiveSimulator(Scenario()) as simulator:
            ...     simulator.http_options().api_version
            'v1beta'
        """
        return addressing.http_options(self.base_url, self._the_certificate)

    def environment(self) -> dict[str, str]:
        """Environment variables that lead a program here which knows nothing of the simulator.

        `SSL_CERT_FILE` names a file that is deleted when the simulator stops; while it is set, the
        program trusts no other server.
        """
        return addressing.environment(self.base_url, self._the_certificate)

    @property
    def _the_certificate(self) -> LoopbackCertificate:
        if self._certificate is None:
            raise SimulatorError("The simulator is not running; use it with `with`")
        return self._certificate


def _as_scenario(scenario: Scenario | Play | Path | str) -> Scenario:
    if isinstance(scenario, Scenario):
        return scenario
    return Scenario.load(scenario) if isinstance(scenario, Path | str) else Scenario(scenario)
