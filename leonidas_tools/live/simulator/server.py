"""A Gemini Live server on loopback, in a thread of its own, that plays a scenario."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from concurrent.futures import Future
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from leonidas_tools.errors import SimulatorError
from leonidas_tools.live.simulator.certificate import LoopbackCertificate
from leonidas_tools.live.simulator.connection import SCENARIO_FAILED, Conduct, Connection
from leonidas_tools.live.simulator.exchange import Pace
from leonidas_tools.live.simulator.observation import Observation
from leonidas_tools.live.simulator.protocol import Quirks
from leonidas_tools.live.simulator.recording import Outcome
from leonidas_tools.live.simulator.scenario import Play, Scenario

if TYPE_CHECKING:
    from types import TracebackType

    from google.genai.types import HttpOptions
    from websockets.http11 import Request, Response

API_VERSION = "v1beta"
API_KEY = "simulated"
_PATH_START = "/ws/google.ai.generativelanguage."
_PATH_ENDS = ("BidiGenerateContent", "BidiGenerateContentConstrained")
_CLOSE_SECONDS = 1.0


class LiveSimulator(Observation):
    """A Gemini Live server on loopback that plays a scenario and records what it sees.

    It runs in its own thread with its own event loop, so that an agent that blocks its loop does
    not block the server. Use it with `with` or `async with`; leaving raises what `check` raises
    if the simulator is strict.

    Args:
        scenario: What to play: a scenario, an async function, or the path of a YAML file.
        strict: Close the connection at a violation, as the real server does.
        speed: 1 plays pauses as written, 2 twice as fast, `math.inf` without any.
        quirks: How this server behaves, where servers differ.

    Raises:
        ConfigurationError: The YAML file is wrong.

    Example:
        >>> from leonidas_tools.live.simulator import Say
        >>> with LiveSimulator(Scenario([Say("Hello")])) as simulator:
        ...     simulator.base_url.startswith("https://127.0.0.1:")
        True
    """

    def __init__(
        self,
        scenario: Scenario | Play | Path | str,
        *,
        strict: bool = True,
        speed: float = 1.0,
        quirks: Quirks | None = None,
    ) -> None:
        self.scenario = _as_scenario(scenario)
        self._conduct = Conduct(strict=strict, pace=Pace(speed=speed), quirks=quirks or Quirks())
        super().__init__(scripts=len(self.scenario.scripts))
        self._certificate: LoopbackCertificate | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._port: int | None = None
        self._over = Future[None]()

    # Life.

    def start(self) -> None:
        """Starts the server; returns once it listens."""
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
        """Ends all connections and the server's thread."""
        if self._thread is None or self._certificate is None:
            return
        self._ask_to_stop()
        self._thread.join()
        self._certificate.remove()

    def _ask_to_stop(self) -> None:
        if self._loop is not None and self._stopping is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)

    def _run(self, listening: Future[None]) -> None:
        try:
            asyncio.run(self._serve(listening))
        finally:
            self._over.set_result(None)

    async def _serve(self, listening: Future[None]) -> None:
        assert self._certificate is not None
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        try:
            server = await serve(
                self._handle,
                "127.0.0.1",
                0,
                ssl=self._certificate.server_context,
                process_request=_refuse_other_paths,
                compression=None,
                max_size=None,
                ping_interval=None,
                close_timeout=_CLOSE_SECONDS,
            )
        except OSError as error:
            listening.set_exception(error)
            return
        self._port = _port_of(server)
        listening.set_result(None)
        async with server:
            await self._stopping.wait()

    async def _handle(self, websocket: ServerConnection) -> None:
        self._record.opened += 1
        number = self._record.opened
        try:
            play = self.scenario.script_for(number)
            if play is None:
                await self._refuse(number, websocket)
            else:
                connection = Connection(
                    number, websocket, record=self._record, conduct=self._conduct
                )
                await connection.run(play)
        finally:
            await websocket.close()
            self._record.closed += 1
            self._milestones.check()

    async def _refuse(self, number: int, websocket: ServerConnection) -> None:
        message = f"the scenario has {len(self.scenario.scripts)} connections, not {number}"
        self._record.outcomes.append(Outcome(connection=number, status="failed", message=message))
        # A close before the setup would meet the client in the middle of sending it.
        with contextlib.suppress(ConnectionClosed):
            await websocket.recv()
        await websocket.close(SCENARIO_FAILED, message)

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
        if error is None and self._conduct.strict and not self._reported:
            self.check()

    # What a client needs.

    @property
    def base_url(self) -> str:
        """Where the server is, as `https://127.0.0.1:PORT`."""
        if self._port is None:
            raise SimulatorError("The simulator is not running; use it with `with`")
        return f"https://127.0.0.1:{self._port}"

    def http_options(self) -> HttpOptions:
        """Options that lead `genai.Client` and `LiveProcessor` here.

        Example:
            >>> with LiveSimulator(Scenario()) as simulator:
            ...     simulator.http_options().api_version
            'v1beta'
        """
        from google.genai.types import HttpOptions

        connect = {
            "ssl": self._the_certificate.client_context(),
            "proxy": None,
            "ping_interval": None,
            "max_size": None,
        }
        return HttpOptions(
            base_url=self.base_url, api_version=API_VERSION, async_client_args=connect
        )

    def environment(self) -> dict[str, str]:
        """Environment variables that lead a program here which knows nothing of the simulator.

        `SSL_CERT_FILE` names a file that is gone when the simulator stops; while it is set, the
        program trusts no other server.
        """
        no_proxy = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1"]))
        return {
            "GOOGLE_GEMINI_BASE_URL": self.base_url,
            "GOOGLE_GENAI_API_VERSION": API_VERSION,
            "GEMINI_API_KEY": API_KEY,
            "SSL_CERT_FILE": str(self._the_certificate.path),
            "NO_PROXY": no_proxy,
            "no_proxy": no_proxy,
        }

    @property
    def _the_certificate(self) -> LoopbackCertificate:
        if self._certificate is None:
            raise SimulatorError("The simulator is not running; use it with `with`")
        return self._certificate


def _as_scenario(scenario: Scenario | Play | Path | str) -> Scenario:
    if isinstance(scenario, Scenario):
        return scenario
    return Scenario.load(scenario) if isinstance(scenario, Path | str) else Scenario(scenario)


def _port_of(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


def _refuse_other_paths(connection: ServerConnection, request: Request) -> Response | None:
    path = request.path.partition("?")[0]
    if path.startswith(_PATH_START) and path.endswith(_PATH_ENDS):
        return None
    text = f"{path} is not the path of the Live API\n"
    return connection.respond(HTTPStatus.NOT_FOUND, text)
