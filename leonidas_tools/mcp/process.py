"""An MCP server as a child process: its pipes, its exit, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

OnLine: TypeAlias = Callable[[bytes], None]

_LONGEST_LINE = 64 * 1024 * 1024
_STDERR_LINES = 5
_STDIN, _STDOUT, _STDERR = 0, 1, 2

_EXIT_SECONDS = 2.0
"""How long a server may take to exit once its input is closed, and again once it was told to."""

_PIPE_SECONDS = 0.5
"""How long output may still come after an exit, and an exit after the end of the output."""

_POLL_SECONDS = 0.01


class ServerProcess(asyncio.SubprocessProtocol):
    """One running server; `mcp.client.stdio` hides its process and so cannot say how it died.

    Args:
        on_line: Called with each line of standard output.
        on_stderr: Called with each line of standard error.
        on_end: Called once, when nothing more can come: with what happened.
    """

    def __init__(
        self, *, on_line: OnLine, on_stderr: OnLine, on_end: Callable[[str], None]
    ) -> None:
        self.last_lines: deque[str] = deque(maxlen=_STDERR_LINES)
        """What the server last wrote to standard error."""
        self._lines = {_STDOUT: _Lines(on_line), _STDERR: _Lines(self._keeping(on_stderr))}
        self._on_end: Callable[[str], None] | None = on_end
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    @classmethod
    async def start(
        cls,
        command: str,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        **listeners: Callable[..., None],
    ) -> ServerProcess:
        """Starts the command in a process group of its own.

        Args:
            command: The program.
            args: Its arguments.
            env: Its whole environment.
            cwd: The directory it starts in.
            listeners: As for the class.

        Raises:
            OSError: The command cannot be started.
        """
        _, process = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(**listeners),
            command,
            *args,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        return process

    async def write(self, data: bytes) -> None:
        """Writes to the server's standard input, waiting while it does not read.

        Raises:
            BrokenPipeError: The server has closed its input.
        """
        await self._writable.wait()
        if self._stdin is None or self._stdin.is_closing():
            raise BrokenPipeError("The server has closed its standard input")
        self._stdin.write(data)

    async def stop(self) -> None:
        """Ends the server and every process it has started: asked first, then told, then killed."""
        self._on_end = None
        try:
            if self._stdin is not None:
                self._stdin.close()
            await _happens(self._exited, _EXIT_SECONDS)
            if self._signal(signal.SIGTERM):
                await self._all_gone(_EXIT_SECONDS)
        finally:
            anybody_left = self._signal(signal.SIGKILL)
            if self._transport is not None:
                self._transport.close()
        if anybody_left:
            await self._all_gone(_PIPE_SECONDS)
        await _happens(self._closed, _PIPE_SECONDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio once the process runs."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        stdin: Any = transport.get_pipe_transport(_STDIN)
        self._stdin = stdin

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Called by asyncio with output."""
        if self._lines[fd].feed(data) <= _LONGEST_LINE:
            return
        if fd == _STDOUT:
            self._end(f"wrote a line longer than {_LONGEST_LINE:,} bytes")
        self._lines[fd].drop()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Called by asyncio when a pipe ends."""
        if fd == _STDIN:
            self._writable.set()
        elif fd == _STDOUT:
            self._pause_before("closed its standard output")
        else:
            self._lines[fd].flush()

    def process_exited(self) -> None:
        """Called by asyncio when the process has exited, also while others hold its pipes."""
        self._exited.set()
        self._pause_before(self._exit_text())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Called by asyncio when the process has exited and all its pipes have ended."""
        self._end(self._exit_text())
        self._closed.set()

    def pause_writing(self) -> None:
        """Called by asyncio while the server does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by asyncio when it reads again."""
        self._writable.set()

    def _keeping(self, on_stderr: OnLine) -> OnLine:
        def keep(line: bytes) -> None:
            if text := line.decode(errors="replace").strip():
                self.last_lines.append(text)
            on_stderr(line)

        return keep

    def _pause_before(self, what: str) -> None:
        """Ends a little later: exit and output end together, in either order."""
        self._loop.call_later(_PIPE_SECONDS, self._end, what)

    def _end(self, what: str) -> None:
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(what if self._code() is None else self._exit_text())

    def _code(self) -> int | None:
        return None if self._transport is None else self._transport.get_returncode()

    def _exit_text(self) -> str:
        code = self._code() or 0
        if code >= 0:
            return f"exited with code {code}"
        return f"was ended by {signal.Signals(-code).name}"

    async def _all_gone(self, seconds: float) -> None:
        """Waits until nobody is left in the process group, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._signal(0):  # noqa: ASYNC110 - nothing tells when a group is empty
                    await asyncio.sleep(_POLL_SECONDS)

    def _signal(self, number: int) -> bool:
        """Signals the process group; whether anybody is left in it."""
        if self._transport is None:
            return False
        try:
            os.killpg(self._transport.get_pid(), number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # somebody is left who may not be signalled
        return True


class _Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> int:
        """Takes some bytes; returns how long the line is that has begun and not ended."""
        first, *rest = data.split(b"\n")
        self._parts.append(first)
        self._length += len(first)
        for part in rest:
            self.flush()
            self._parts.append(part)
            self._length = len(part)
        return self._length

    def flush(self) -> None:
        """Takes what there is for a line."""
        line = b"".join(self._parts)
        self.drop()
        if line.strip():
            self._on_line(line)

    def drop(self) -> None:
        """Forgets what there is."""
        self._parts.clear()
        self._length = 0


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event happens in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
