"""A program that runs in a sandbox, and its result."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say
from leonidas_tools.sandbox.output import BoundedOutput

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

Stream: TypeAlias = Literal["stdout", "stderr"]
OnOutput: TypeAlias = "Callable[[Stream, bytes], object]"
StoppedBy: TypeAlias = Literal["timeout", "cancelled", "cpu", "memory", "file_size", "output"]

MAX_ARGUMENT_BYTES = 131_071
"""Maximum length of an argument on Linux, in bytes."""
_CHUNK_BYTES = 65_536
_FLOOD = 64
"""Multiple of the kept output that a program may print before it is killed."""
_MAX_REPORT_BYTES = 65_536


class NoSandboxError(ToolError):
    """Raised when the requested isolation is not available: nothing has run.

    Args:
        reason: What is missing.
    """

    status = "unavailable"

    def __init__(self, reason: str) -> None:
        super().__init__(say("no_sandbox", reason=reason), reason_code="no_sandbox")
        self.reason = reason


class UnrunnableError(ToolError):
    """Raised when the system cannot pass such arguments to a program: nothing has run."""

    status = "invalid_argument"

    def __init__(self) -> None:
        message = say("unrunnable_program", most=MAX_ARGUMENT_BYTES)
        super().__init__(message, reason_code="unrunnable_program")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """Result of a program that has ended.

    Args:
        exit_code: The exit code, as in a shell: 128 plus the signal number after a signal.
        stdout: The standard output; only the beginning and the end of a long output.
        stderr: The standard error, cut in the same way.
        left_out_bytes: The number of bytes left out of both.
        stopped_by: The reason why it was killed, such as `timeout`; `None` if it ended by itself.
        seconds: The run time, in seconds.
        cpu_seconds: The processor time of the program and its descendants, in seconds.
    """

    exit_code: int
    stdout: str
    stderr: str
    left_out_bytes: int = 0
    stopped_by: StoppedBy | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether the program ended by itself with exit code 0."""
        return self.exit_code == 0 and self.stopped_by is None


class Running:
    """A running program, started and stopped by `Sandbox.start`.

    Args:
        control: The connection to the supervisor, which kills the program when this closes.
        outputs: The read ends of the pipes for standard output and standard error.
        program: The name of the program.
        is_wrapped: Whether bubblewrap runs the program.
        output_bytes: The maximum number of bytes to keep of each output.
        on_output: Called with each piece of output.
        channel: A connection to the program itself, its file descriptor 3.
    """

    def __init__(  # noqa: PLR0913 - its connections and its properties
        self,
        control: socket.socket,
        outputs: Mapping[Stream, int],
        *,
        program: str,
        is_wrapped: bool,
        output_bytes: int,
        on_output: OnOutput | None = None,
        channel: socket.socket | None = None,
    ) -> None:
        self.channel = channel
        self._program, self._is_wrapped = program, is_wrapped
        self._control = control
        self._kept = {stream: BoundedOutput(output_bytes) for stream in outputs}
        self._open = dict(outputs)
        self._on_output = on_output
        self._stopped_by: StoppedBy | None = None
        self._printed, self._most_bytes = 0, output_bytes * _FLOOD
        self._report = bytearray()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        control.setblocking(False)
        self._loop.add_reader(control, self._read_report)
        for stream, fd in outputs.items():
            os.set_blocking(fd, False)
            self._loop.add_reader(fd, self._read, stream, fd)

    async def ended(self) -> dict[str, Any]:
        """Wait until the program and all its descendants have ended, and return the report."""
        return await asyncio.shield(self._ended)

    def stop(self, why: StoppedBy = "cancelled") -> None:
        """Kill the program and all its descendants."""
        if self._stopped_by is None and not self._ended.done():
            self._stopped_by = why
            with contextlib.suppress(OSError):
                self._control.shutdown(1)  # only for writing: the report still arrives

    async def finished(self) -> Finished:
        """Wait until the program and all its descendants have ended, and return the result.

        Raises:
            NoSandboxError: The program could not run in isolation.
            FileNotFoundError: There is no such program or directory.
        """
        report = await self.ended()
        self._check(report)
        by = self._stopped_by or report.get("stopped_by")
        finished = Finished(
            exit_code=report["exit_code"],
            stdout=self._kept["stdout"].text(),
            stderr=self._kept["stderr"].text(),
            left_out_bytes=sum(each.left_out_bytes for each in self._kept.values()),
            stopped_by=cast("StoppedBy | None", by),
            seconds=report["seconds"],
            cpu_seconds=report["cpu_seconds"],
        )
        if self._is_wrapped and by is None and '"exit-code"' not in report["status"]:
            raise self._not_set_up(finished.stderr.strip())
        return finished

    def _check(self, report: Mapping[str, Any]) -> None:
        """Raise an error if the program was not started."""
        if not report:
            raise NoSandboxError("the launcher ended unexpectedly")
        number, _, text = report["problem"].partition(" ")
        if number == "cannot":
            raise NoSandboxError(f"cannot {text}")
        if number in (str(errno.ENOENT), str(errno.ENOTDIR)):
            raise FileNotFoundError(int(number), text, self._program)
        if number:
            raise NoSandboxError(text)

    def _not_set_up(self, said: str) -> Exception:
        """Return the error that explains why bubblewrap did not run the program."""
        if said.startswith(("bwrap: execvp", "bwrap: Can't chdir")):
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._program)
        return NoSandboxError(said or "bubblewrap ended unexpectedly")

    def close(self) -> None:
        """Close all connections, which kills the program if it still runs."""
        for stream in tuple(self._open):
            self._close_output(stream)
        self._loop.remove_reader(self._control)
        self._control.close()
        if self.channel is not None:
            self.channel.close()

    def _read(self, stream: Stream, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._close_output(stream)
            return
        self._kept[stream].add(data)
        self._printed += len(data)
        if self._printed > self._most_bytes:
            self.stop("output")
        if self._on_output is not None:
            self._on_output(stream, data)

    def _close_output(self, stream: Stream) -> None:
        fd = self._open.pop(stream, None)
        if fd is not None:
            self._loop.remove_reader(fd)
            os.close(fd)

    def _read_report(self) -> None:
        try:
            data = self._control.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._report += data
        if data and len(self._report) < _MAX_REPORT_BYTES:
            return
        self._loop.remove_reader(self._control)
        for stream, fd in tuple(self._open.items()):
            while stream in self._open:  # all writers have ended: the rest can be read at once
                self._read(stream, fd)
        if not self._ended.done():
            try:
                report = json.loads(self._report) if self._report else {}
            except (ValueError, RecursionError):
                report = {}  # the report was cut off
            self._ended.set_result(report if isinstance(report, dict) else {})
