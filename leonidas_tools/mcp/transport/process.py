"""An MCP server as a child process: its start, its pipes and its exit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from leonidas_tools.mcp.transport.limits import LineSplitter
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.mcp.transport.stdio import StdioServer

_MAX_STDERR_LINE_LENGTH = 65_536
_STDERR_LINES = 5
_STDIN, _STDOUT, _STDERR = 0, 1, 2

_EXIT_SECONDS = 2.0
"""Seconds to wait for a server's exit after its input is closed, and again after a signal."""

_PIPE_SECONDS = 0.5
"""Seconds to wait for output after an exit, and for an exit after the end of the output."""

_POLL_SECONDS = 0.01
_MAX_UNREAD = 256
logger = visible_logger(__name__)

MARK = "LEONIDAS_MCP_SERVER"
"""The environment variable that identifies a server's processes, in any process group."""

_SHELL = "/bin/sh"
_SCRIPT = """
group=
while read -r line; do group=$line; done
pause() {
    rounds=0
    while kill -0 "-$group" && [ $rounds -lt 40 ]; do sleep 0.05; rounds=$((rounds + 1)); done
}
if [ -n "$group" ]; then
    pause; kill -TERM "-$group" && pause
    kill -KILL "-$group"
fi
rounds=0
while files=$(grep -lsxzF -e "$1" /proc/[0-9]*/environ); [ -n "$files" ] && [ $rounds -lt 40 ]; do
    for file in $files; do process=${file#/proc/}; kill -KILL "${process%/environ}"; done
    sleep 0.05; rounds=$((rounds + 1))
done
exit 0
"""
_GONE_SECONDS = 2.0


class ServerProcess(asyncio.SubprocessProtocol):
    """One running server; `mcp.client.stdio` hides its process, and so the reason for its exit."""

    def __init__(self, listener: StdioServer, longest_line: int) -> None:
        self.last_lines: deque[str] = deque(maxlen=_STDERR_LINES)
        """Last lines of the server's standard error."""
        self._lines = {
            _STDOUT: LineSplitter(longest_line, listener.on_line, listener.on_long_line),
            _STDERR: LineSplitter(
                _MAX_STDERR_LINE_LENGTH, self._keep, lambda start, _: self._keep(start)
            ),
        }
        self._listener = listener
        self._ended = False
        self._stdout: asyncio.ReadTransport | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._unread = 0

    @classmethod
    async def start(
        cls, listener: StdioServer, longest_line: int, command: Sequence[str], **options: Any
    ) -> ServerProcess:
        """Start a command in its own process group.

        Raises:
            OSError: The command cannot be started.
        """
        _, process = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(listener, longest_line), *command, start_new_session=True, **options
        )
        return process

    @property
    def pid(self) -> int:
        """Return the id of the process, which is also the id of its group."""
        assert self._transport is not None
        return self._transport.get_pid()

    def hold(self, held: bool) -> None:
        """Pause reading, so that the server blocks on its pipe, or resume reading."""
        if self._stdout is not None and not self._stdout.is_closing():
            if held:
                self._stdout.pause_reading()
            else:
                self._stdout.resume_reading()

    def write(self, data: bytes) -> None:
        """Write to the server's standard input; buffer unread data, without a limit.

        Data that is written before `stop` still reaches the server while the server exits. Data for
        a server that has closed its input is lost: the server is about to exit.
        """
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)
            self._unread += not self._writable.is_set()

    async def room(self) -> None:
        """Wait while more than 256 writes are unread.

        Otherwise, a server that sends requests and never reads would fill the memory.
        """
        if self._unread > _MAX_UNREAD:
            await self._writable.wait()

    async def stop(self) -> None:
        """Stop the server and its processes: close its input, then SIGTERM, then SIGKILL."""
        self._ended = True
        try:
            if self._stdin is not None:
                self._stdin.close()
            await _wait_for(self._exited, _EXIT_SECONDS)
            if self._signal(signal.SIGTERM):
                await self._wait_for_group(_EXIT_SECONDS)
        finally:
            anybody_left = self._signal(signal.SIGKILL)
            if self._transport is not None:
                self._transport.close()
        if anybody_left:
            await self._wait_for_group(_PIPE_SECONDS)
        await _wait_for(self._closed, _PIPE_SECONDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the pipes of the started process."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        stdin: Any = transport.get_pipe_transport(_STDIN)
        stdout: Any = transport.get_pipe_transport(_STDOUT)
        self._stdin, self._stdout = stdin, stdout
        stdout.set_protocol(_StdoutProtocol(self, stdout.get_protocol()))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Receive output of the process."""
        self._listener.on_bytes()
        self._lines[fd].feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Record that a pipe has ended."""
        if fd == _STDIN:
            self._writable.set()
            self._end_later("closed its standard input")
        elif fd == _STDOUT:
            self._end_later("closed its standard output")
        else:
            self._lines[fd].flush()

    def process_exited(self) -> None:
        """Record that the process has exited, even if other processes keep its pipes open."""
        self._exited.set()
        self._end_later(self._exit_text())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Record that the process has exited and all its pipes have ended."""
        self._end(self._exit_text())
        self._closed.set()

    def pause_writing(self) -> None:
        """Record that the server does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Record that the server reads again."""
        self._unread = 0
        self._writable.set()

    def _keep(self, line: bytes) -> None:
        if text := line.decode(errors="replace").strip():
            self.last_lines.append(text)
        self._listener.on_stderr(line)

    def _end_later(self, reason: str) -> None:
        """Report the end a little later: exit and end of output come together, in either order."""
        self._loop.call_later(_PIPE_SECONDS, self._end, reason)

    def _end(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            code = self._exit_code()
            self._listener.on_end(reason if code is None else self._exit_text(), code)

    def _exit_code(self) -> int | None:
        return None if self._transport is None else self._transport.get_returncode()

    def _exit_text(self) -> str:
        code = self._exit_code() or 0
        if code >= 0:
            return f"exited with code {code}"
        return f"was ended by {signal.Signals(-code).name}"

    async def _wait_for_group(self, seconds: float) -> None:
        """Wait until the process group is empty, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._signal(0):  # noqa: ASYNC110 - no event reports an empty group
                    await asyncio.sleep(_POLL_SECONDS)

    def _signal(self, number: int) -> bool:
        """Signal the process group; return whether any process is left in it."""
        if self._transport is None:
            return False
        try:
            os.killpg(self._transport.get_pid(), number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # a process is left that may not be signalled
        return True


class _StdoutProtocol(asyncio.Protocol):
    """Passes standard output on at once; asyncio's reader needs an iteration of the event loop."""

    def __init__(self, process: ServerProcess, own: asyncio.BaseProtocol) -> None:
        self._process = process
        self._own = own

    def data_received(self, data: bytes) -> None:
        self._process.pipe_data_received(_STDOUT, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._own.connection_lost(exc)


async def _wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Return whether the event happens in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class Watchdog:
    """A process that detects the end of this process, even by a SIGKILL, by the end of its input.

    Then the watchdog acts like `ServerProcess.stop`: it waits for the exit of the server, whose
    input has ended too; it sends SIGTERM; it kills the process group. A process that left the group
    is found by its environment, if there is a `/proc`, and killed. The watchdog is a shell: it
    needs 0.2 MB and no time while it waits, and starts as fast as any process.

    A process that was forked from this one without an exec keeps the input open. It delays the
    watchdog until its own end.
    """

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - no thread waits for this one; the script is the one above
                [_SHELL, "-c", _SCRIPT, "sh", f"{MARK}={self._mark}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        except OSError as error:
            logger.warning(
                "Without a shell, MCP servers survive a SIGKILL of this process: %s", error
            )
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_GONE_SECONDS):
                while self._process.poll() is None:  # noqa: ASYNC110 - without a thread to wait in
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            logger.debug("The watchdog of an MCP server did not end by itself")
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variable that identifies the server's processes."""
        return {MARK: self._mark}

    def watch(self, group: int | None) -> None:
        """Set the process group to kill; `None` once it has ended."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(f"{group or ''}\n".encode())
