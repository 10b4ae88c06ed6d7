"""A Gemini Live server on loopback that plays a scenario in its own thread."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from google.genai.errors import APIError
from websockets.exceptions import ConnectionClosed

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator.certificate import LoopbackCertificate
from leonidas_tools.simulator.connection import ConnectionHandler, ScenarioOverError, ServerContext
from leonidas_tools.simulator.elastic_loop import ElasticEventLoop, elastic
from leonidas_tools.simulator.generations import quirks_of
from leonidas_tools.simulator.listener import Listener, PlannedRefusal
from leonidas_tools.simulator.observation import Observation
from leonidas_tools.simulator.protocol import INTERNAL
from leonidas_tools.simulator.resumption import SessionRegistry
from leonidas_tools.simulator.scenario import Play, Scenario

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from google.genai.types import HttpOptions

    from leonidas_tools.simulator.generations import Quirks
    from leonidas_tools.simulator.listener import PausableConnection
    from leonidas_tools.simulator.recording import Refusal


@dataclass(frozen=True, kw_only=True, slots=True)
class _RunningServer:
    """The parts of a running server."""

    loop: ElasticEventLoop
    context: ServerContext
    stopping: asyncio.Event
    """Set to stop the server."""


_LOST = (APIError, ConnectionClosed)


class LiveSimulator(Observation):
    """A Gemini Live server on loopback that plays a scenario and records the session.

    It runs in its own thread with its own event loop, so that an agent that blocks its loop does
    not block the server. Use it with `with` or `async with`; leaving raises what `check` raises
    if the simulator is strict.

    The server is for tests and demonstrations: it listens on loopback only, and limits neither
    the number of connections nor their idle time.

    Args:
        scenario: A scenario, an async function, or the path of a YAML file.
        strict: Close the connection at a violation, as the real server does, and refuse new ones
            once a step has failed.
        speed: The speed of pauses: 1 as written, 2 twice as fast, `math.inf` without pauses.
        generation: The generation of models to simulate: `2.5`, `3.1`, `3.8-live`, `3.8-thinking`,
            `vertex` or `vertex-3.8`; by default that of the scenario, otherwise a server without
            quirks.
        quirks: The behaviour of the server, instead of that of a generation.

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
        self._strict = strict
        self._speed = speed
        super().__init__(scripts=len(self.scenario.scripts))
        self._running: _RunningServer | None = None
        self._thread: threading.Thread | None = None
        self._certificate: LoopbackCertificate | None = None
        self._over = Future[None]()
        self._played = 0

    # Starting and stopping.

    def start(self) -> None:
        """Start the server and return once it listens."""
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
        context = self._make_context()
        try:
            await context.listener.open()
        except OSError as error:
            listening.set_exception(error)
            return
        loop = elastic(asyncio.get_running_loop())
        self._running = _RunningServer(loop=loop, context=context, stopping=asyncio.Event())
        listening.set_result(None)
        await self._running.stopping.wait()
        await context.listener.close()

    def _make_context(self) -> ServerContext:
        tls = self._own_certificate.server_context
        return ServerContext(
            strict=self._strict,
            speed=self._speed,
            quirks=self.quirks,
            record=self._record,
            sessions=SessionRegistry(
                handle_seconds=self.quirks.handle_seconds, is_open=self._record.is_open
            ),
            listener=Listener(self._handle, on_refusal=self._note_refusal, tls=tls),
            next_play=self._next_play,
        )

    async def _handle(self, websocket: PausableConnection) -> None:
        number = self._record.open(websocket)
        try:
            await ConnectionHandler(number, websocket, context=self._server.context).run()
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
            loop.keep_pace_with(self._server.loop)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The client may run on this loop, which must keep running until its connection ends.
        self._ask_to_stop()
        await asyncio.wrap_future(self._over)
        self.stop()
        self._check_at_exit(error)

    def _check_at_exit(self, error: BaseException | None) -> None:
        # A lost connection is a consequence of the failure that `check` reports.
        shown = error is None or isinstance(error, _LOST)
        if shown and self._strict and not self._reported:
            self.check()

    # Connecting a client.

    @property
    def base_url(self) -> str:
        """Return the address of the server, as `https://127.0.0.1:PORT`."""
        return f"https://127.0.0.1:{self._server.context.listener.port}"

    def http_options(self) -> HttpOptions:
        """Return options that connect `genai.Client` or `LiveProcessor` to the simulator.

        For the Vertex AI protocol, also give the client `vertexai=True` and any API key.

        Example:
            >>> with LiveSimulator(Scenario()) as simulator:
            ...     simulator.http_options().api_version
            'v1beta'
        """
        return _http_options(self.base_url, self._own_certificate)

    def environment(self) -> dict[str, str]:
        """Return environment variables that connect any program to the simulator.

        `SSL_CERT_FILE` names a file that is deleted when the simulator stops; while it is set, the
        program trusts no other server.
        """
        return _environment(self.base_url, self._own_certificate)

    @property
    def _own_certificate(self) -> LoopbackCertificate:
        if self._certificate is None:
            raise SimulatorError("The simulator is not running; use it with `with`")
        return self._certificate

    # Interfering with a running server, from any thread.

    @property
    def _server(self) -> _RunningServer:
        if self._running is None:
            raise SimulatorError("The simulator is not running; use it with `with`")
        return self._running

    def advance(self, seconds: float) -> Future[None]:
        """Advance the server's time: pauses, and the time announced by `goAway`, pass at once.

        Time runs from one deadline to the next, and only while the server is idle; see
        `ElasticEventLoop`. A scenario waits for the client in real time.

        Args:
            seconds: How far to advance.

        Returns:
            A future that is done once the time has passed; waiting for it is optional.
        """
        return self._server.loop.advance(seconds)

    def refuse_connections(
        self,
        count: int = 1,
        *,
        http_status: int | None = None,
        close_code: int = INTERNAL,
        reason: str = "",
    ) -> None:
        """Refuse the next connections; they appear in `refusals` and play no script.

        Args:
            count: The number of connections.
            http_status: The status of a refusal at the HTTP request; None to refuse after
                the setup.
            close_code: The close code of a refusal after the setup.
            reason: The reason that the client receives.
        """
        refusal = PlannedRefusal(http_status=http_status, close_code=close_code, reason=reason)
        self._do(self._server.context.listener.refuse, count, refusal)

    def pause_listening(self) -> None:
        """Stop listening: new connections are refused by the network; open ones stay."""
        self._do(self._server.context.listener.pause)

    def resume_listening(self) -> Future[None]:
        """Listen again, on the same port.

        Returns:
            A future that is done once clients can connect. The method waits for it, except in
            the server's thread, where a scenario in Python runs.
        """
        return self._do(self._server.context.listener.open)

    def expire_handles(self) -> None:
        """Expire all handles issued so far."""
        self._do(self._server.context.sessions.expire)

    def note_progress(self, tool: str) -> None:
        """Tell all open connections that a tool has reported progress, from any thread at once.

        Args:
            tool: The tool, for which a scenario waits by `wait_for_progress`.
        """
        if self._running is not None and not self._running.loop.is_closed():
            self._running.loop.call_soon_threadsafe(self._note_progress, tool)

    def _note_progress(self, tool: str) -> None:
        for session in self._server.context.open_sessions:
            session.note_progress(tool)

    def drop_connections(self) -> None:
        """Drop all connections without a close frame, as a lost network does."""
        self._do(self._drop_all)

    def _drop_all(self) -> None:
        for websocket in list(self._record.websockets.values()):
            websocket.transport.abort()

    def _do(self, act: Callable[..., Awaitable[None] | None], *arguments: Any) -> Future[None]:
        async def do() -> None:
            result = act(*arguments)
            if result is not None:
                await result

        future = asyncio.run_coroutine_threadsafe(do(), self._server.loop)
        if (
            threading.current_thread() is not self._thread
        ):  # a scenario in Python may call this, too
            future.result()
        return future


def _as_scenario(scenario: Scenario | Play | Path | str) -> Scenario:
    if isinstance(scenario, Scenario):
        return scenario
    return Scenario.load(scenario) if isinstance(scenario, Path | str) else Scenario(scenario)


_API_VERSION: Final = "v1beta"
_API_KEY: Final = "simulated"


def _http_options(base_url: str, certificate: LoopbackCertificate) -> HttpOptions:
    """Return options for `genai.Client` that connect it to a server on loopback."""
    from google.genai.types import HttpOptions

    connect = {
        "ssl": certificate.client_context(),
        "verify": certificate.client_context(),
        "proxy": None,
        "ping_interval": None,
        "max_size": None,
    }
    return HttpOptions(base_url=base_url, api_version=_API_VERSION, async_client_args=connect)


def _environment(base_url: str, certificate: LoopbackCertificate) -> dict[str, str]:
    """Return environment variables that connect a program to a server on loopback."""
    no_proxy = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1"]))
    return {
        "GOOGLE_GEMINI_BASE_URL": base_url,
        "GOOGLE_GENAI_API_VERSION": _API_VERSION,
        "GEMINI_API_KEY": _API_KEY,
        "SSL_CERT_FILE": str(certificate.path),
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
    }
