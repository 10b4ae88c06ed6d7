"""Sessions in virtual time: both ends on one event loop, whose clock jumps whenever it would wait.

Nothing is left to chance but the threads of sync tools, which the clock waits for.
"""

import asyncio
import functools
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx
from google.genai.types import HttpOptions

from leonidas_tools.simulator import LiveSimulator
from leonidas_tools.simulator.certificate import LoopbackCertificate
from leonidas_tools.simulator.server import _RunningServer

_POLL_SECONDS = 0.001
_MAX_SECONDS = 60.0
"""Of real time: a session that takes longer never ends."""


class StuckError(Exception):
    """Raised when a loop has nothing to wait for and is not done, or never comes to an end."""


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that waits for nothing but threads; instead, the time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        self._until = time.monotonic() + _MAX_SECONDS
        self.is_busy: Callable[[], bool] = lambda: False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        while True:
            is_busy = self.is_busy()  # before the look, for a thread answers and then is idle
            events = super().select(_POLL_SECONDS if is_busy else 0)
            if time.monotonic() > self._until:
                raise StuckError(f"it goes on after {self.passed:.1f} s of its time")
            if events or (timeout is not None and timeout <= 0):
                return events
            if is_busy:
                continue
            if timeout is None:
                raise StuckError("nothing will happen any more, and the session is not over")
            self.passed += timeout
            return events


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own, and a network that is not the machine's."""

    def __init__(self) -> None:
        self.delay_seconds = 0.0
        """How long the network takes from one end to the other."""
        self._clock = _JumpingSelector()
        self._network: dict[int, _Listening] = {}
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the loop's time in seconds."""
        return self._clock.passed

    def advance(self, seconds: float) -> None:
        """Do nothing: time passes by itself."""

    def wait_for(self, is_busy: Callable[[], bool]) -> None:
        """Let no time pass while threads are busy."""
        self._clock.is_busy = is_busy

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Run a function at once."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    # The network: sockets in pairs, which carry what is sent at once, without TLS.

    async def create_server(self, protocol_factory: Any, host: Any, port: Any, **_: Any) -> Any:
        """Listen at a port that only this loop has."""
        listening = _Listening(protocol_factory, port or len(self._network) + 1)
        self._network[listening.port] = listening
        return listening

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """Connect to a port of this loop."""
        listening = self._network.get(port)
        if listening is None or not listening.is_serving():
            raise ConnectionRefusedError(111, f"Connect call failed ({host!r}, {port})")
        near, far = _pair()
        if self.delay_seconds:
            far = await self._delayed(far)
        await self.connect_accepted_socket(listening.protocol_factory, far)
        return await super().create_connection(protocol_factory, sock=near)

    async def _delayed(self, near: socket.socket) -> socket.socket:
        """Return the far end of a line that carries everything a while later."""
        middle, far = _pair()
        one, other = (_Relay(self, self.delay_seconds) for _ in range(2))
        one.other, other.other = other, one
        await self.connect_accepted_socket(lambda: one, near)
        await self.connect_accepted_socket(lambda: other, middle)
        return far


def _pair() -> tuple[socket.socket, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


class _Relay(asyncio.Protocol):
    """One end in the middle of a line: what comes in here goes out at the other, later."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delay_seconds: float) -> None:
        self._loop = loop
        self._delay_seconds = delay_seconds
        self._under_way: deque[Callable[[], None]] = deque()
        self.transport: Any = None
        self.other: Any = None

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Send the bytes on, later."""
        self._later(functools.partial(self.other.transport.write, data))

    def connection_lost(self, error: Exception | None) -> None:
        """End the other half, later."""
        self._later(self.other.transport.close)

    def _later(self, act: Callable[[], None]) -> None:
        # Timers that are due at the same time come in any order, and these must not.
        self._under_way.append(act)
        self._loop.call_later(self._delay_seconds, self._act)

    def _act(self) -> None:
        self._under_way.popleft()()


@dataclass(eq=False)
class _Listening:
    """A server as websockets knows it; it also stands for its socket."""

    protocol_factory: Callable[[], asyncio.Protocol]
    port: int
    family: int = socket.AF_INET
    _serves: bool = True
    sockets: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def is_serving(self) -> bool:
        return self._serves

    def close(self) -> None:
        self._serves = False

    async def wait_closed(self) -> None:
        """Return at once: the connections are others'."""


class Arena:
    """What sessions in virtual time share, since it takes long to make; a context."""

    def __enter__(self) -> Self:
        self.certificate = LoopbackCertificate()
        self._client_context = ssl.create_default_context()
        self._http = httpx.Client(trust_env=False, verify=self._client_context)
        self._async_http = httpx.AsyncClient(trust_env=False, verify=self._client_context)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.close()
        self.certificate.remove()

    def http_options(self, base_url: str) -> HttpOptions:
        """Return options that connect a client to a simulator in this arena."""
        return HttpOptions(
            base_url=base_url,
            api_version="v1beta",
            httpx_client=self._http,
            httpx_async_client=self._async_http,
            async_client_args={
                "ssl": self._client_context,
                "proxy": None,
                "ping_interval": None,
                "max_size": None,
            },
        )


class VirtualSimulator(LiveSimulator):
    """A simulator on the loop of its client."""

    def __init__(self, *arguments: Any, arena: Arena, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._arena = arena

    async def __aenter__(self) -> Self:
        self._certificate = self._arena.certificate
        self._thread = threading.current_thread()
        context = self._make_context()
        await context.listener.open()
        loop: Any = asyncio.get_running_loop()
        self._running = _RunningServer(loop=loop, context=context, stopping=asyncio.Event())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._server.context.listener.close()
        self._check_at_exit(error)

    def http_options(self) -> HttpOptions:
        return self._arena.http_options(self.base_url)
