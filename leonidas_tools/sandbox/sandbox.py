"""`Sandbox`: run programs with restricted files, network access and resources."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import weakref
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

from leonidas_tools.files.beneath import OutsideError, open_folder
from leonidas_tools.files.roots import Root, Roots
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.sandbox import launcher
from leonidas_tools.sandbox.launcher import FIRST_FOLDER_FD, SECCOMP_FD, STATUS_FD
from leonidas_tools.sandbox.process import (
    MAX_ARGUMENT_BYTES,
    Finished,
    NoSandboxError,
    OnOutput,
    Running,
    UnrunnableError,
)
from leonidas_tools.sandbox.seccomp import filter_code

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from leonidas_tools.sandbox.process import Stream

logger = visible_logger(__name__)

Backend: TypeAlias = Literal["auto", "bubblewrap", "landlock", "none"]
_GRACE_SECONDS = 10.0
_OWN_PROCESSES = 2
"""The number of bubblewrap's own processes that count against the limit of a group."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = ("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime")
_NETWORK_FILES = (
    "/etc/ca-certificates",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp"}  # noqa: S108
_NOBODY = "65534"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of a program; `None` turns a limit off.

    Args:
        timeout_seconds: The maximum run time, in seconds; a run can override it.
        cpu_seconds: The maximum processor time of each process, in seconds.
        memory_bytes: The maximum memory, and the maximum total size of temporary files, in bytes.
            It applies to all processes together in a control group; without one, to each process.
        processes: The maximum number of processes and threads at a time.
        file_bytes: The maximum size of a written file, in bytes.
        open_files: The maximum number of open files of each process.
        output_bytes: The number of bytes of output to keep: half from the beginning, half from
            the end. A program that prints 64 times as much is killed.
    """

    timeout_seconds: float = 60.0
    cpu_seconds: int | None = 60
    memory_bytes: int | None = 1 << 30
    processes: int | None = 64
    file_bytes: int | None = 1 << 30
    open_files: int | None = 1024
    output_bytes: int = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Command:
    """A program to run."""

    argv: Sequence[str]
    input: bytes | None = None
    timeout_seconds: float | None = None
    working_directory: str | Path | None = None
    on_output: OnOutput | None = None
    has_channel: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _LauncherProcess:
    """The process that starts programs, with the connection to that process."""

    connection: socket.socket
    process: subprocess.Popen[bytes]

    def end(self) -> None:
        self.connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_GRACE_SECONDS)


@dataclass(kw_only=True, eq=False)
class Sandbox:
    r"""Runs programs that can access only the given files.

    The first program starts a small launcher process. The launcher ends with `close`, with
    `async with`, or with this object or process.

    Args:
        roots: Directories that programs may read and write, under the same paths as outside. Each
            is opened once: what replaces it later is not reached.
        read_only: Directories and files that programs may also read, besides system programs;
            opened once too.
        network: Whether programs may use the network.
        limits: The limits of each program.
        backend: `bubblewrap`, `landlock`, `none`, or `auto` for the first of the former two that
            works. Only `none` isolates nothing; its programs have limits too.
        environment: Environment variables to set, besides `PATH`, `LANG` and `HOME`.

    Raises:
        OSError: One of the directories or files cannot be opened.

    Example:
        >>> import asyncio
        >>> async def main():
        ...     async with Sandbox(backend="none") as sandbox:
        ...         return await sandbox.run(["echo", "hello"])
        >>> asyncio.run(main()).stdout
        'hello\n'
    """

    roots: Sequence[str | Path | Root] = ()
    read_only: Sequence[str | Path | Root] = ()
    network: bool = False
    limits: Limits = field(default_factory=Limits)
    backend: Backend = "auto"
    environment: Mapping[str, str] = field(default_factory=dict)
    _roots: tuple[Root, ...] = field(default=(), init=False, repr=False)
    _read_only: tuple[Root, ...] = field(default=(), init=False, repr=False)
    _filters: dict[bool, str] = field(default_factory=dict, init=False, repr=False)
    _chosen: str | None = field(default=None, init=False, repr=False)
    _launcher: _LauncherProcess | None = field(default=None, init=False, repr=False)
    _end: weakref.finalize[Any, Any] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.backend not in get_args(Backend):
            raise ValueError(f"backend must be one of {get_args(Backend)!r}, not {self.backend!r}")
        self._roots, self._read_only = _open_roots(self.roots), _open_roots(self.read_only)

    async def __aenter__(self) -> Self:
        """Return the sandbox, which closes when the block ends."""
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the launcher and kill running programs; the next program starts a new launcher."""
        if self._end is not None:
            self._end()
        self._launcher = self._end = None

    async def chosen_backend(self) -> str:
        """Return the backend that runs programs.

        Raises:
            NoSandboxError: No backend is available; the error says why.
        """
        if self._chosen is None:
            self._chosen = await self._choose() if self.backend == "auto" else self.backend
        return self._chosen

    async def _choose(self) -> str:
        reasons = []
        for backend in ("bubblewrap", "landlock"):
            try:
                await self._run(_Command(argv=["/bin/sh", "-c", ":"]), backend)
            except NoSandboxError as error:
                reasons.append(f"{backend}: {error.reason}")
            else:
                return backend
        raise NoSandboxError("; ".join(reasons))

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes | None = None,  # noqa: A002 - as `subprocess.run` has it
        timeout_seconds: float | None = None,
        working_directory: str | Path | None = None,
        on_output: OnOutput | None = None,
    ) -> Finished:
        """Run a program to its end; if cancelled, kill the program and all its descendants.

        Args:
            argv: The program and its arguments; no shell parses them.
            input: The standard input of the program.
            timeout_seconds: The maximum run time, in seconds; by default that of `limits`.
            working_directory: The working directory; by default the first root.
            on_output: Called with `stdout` or `stderr`, and each piece of output as it arrives.

        Raises:
            NoSandboxError: The isolation or a limit is not available.
            UnrunnableError: An argument has a null character, or is longer than Linux allows.
            FileNotFoundError: There is no such program or directory.
        """
        job = _Command(
            argv=argv,
            input=input,
            timeout_seconds=timeout_seconds,
            working_directory=working_directory,
            on_output=on_output,
        )
        return await self._run(job, await self.chosen_backend())

    async def _run(self, job: _Command, backend: str) -> Finished:
        async with self._start(job, backend) as running:
            return await running.finished()

    @asynccontextmanager
    async def start(
        self, argv: Sequence[str], *, timeout_seconds: float, on_output: OnOutput | None = None
    ) -> AsyncIterator[Running]:
        """Start a program with a channel, and kill it when the block ends.

        File descriptor 3 of the program is the other end of `Running.channel`.

        Raises:
            NoSandboxError: The isolation or a limit is not available.
        """
        backend = await self.chosen_backend()
        job = _Command(
            argv=argv, timeout_seconds=timeout_seconds, on_output=on_output, has_channel=True
        )
        async with self._start(job, backend) as running:
            yield running

    @asynccontextmanager
    async def _start(self, job: _Command, backend: str) -> AsyncIterator[Running]:
        running = self._launch(job, backend)
        try:
            yield running
        finally:
            running.stop()
            try:
                await _wait_until_ended(running)
            finally:
                running.close()

    # --- requests ----------------------------------------------------------------------------

    def _request(self, job: _Command, backend: str, folders: _Folders) -> dict[str, Any]:
        """Return the request for the launcher."""
        limits = self.limits
        environment = {**_ENVIRONMENT, **self.environment}
        directory = str(job.working_directory or (self._roots[0].path if self._roots else "/"))
        _check_words([*job.argv, directory])
        request: dict[str, Any] = {
            "argv": list(job.argv),
            "timeout_seconds": job.timeout_seconds or limits.timeout_seconds,
            "environment": environment,
            "working_directory": None,
            "cpu_seconds": limits.cpu_seconds,
            "memory_bytes": limits.memory_bytes,
            "processes": limits.processes,
            "own_processes": 0,
            "limits_inside": False,
            "file_bytes": limits.file_bytes,
            "open_files": limits.open_files,
            "landlock": None,
            "seccomp": None,
            "private": "",
        }
        if backend == "bubblewrap":
            return request | self._bubblewrap(job.argv, environment, directory, folders)
        # The launcher creates and removes this directory.
        private = f"{tempfile.gettempdir()}/leonidas-sandbox-{secrets.token_hex(8)}"
        request["private"] = private
        environment |= {"HOME": private, "TMPDIR": private}
        request["argv"][0] = _program(job.argv[0], environment["PATH"])
        request["working_directory"] = folders.add_ours(self._open_directory(directory))
        return request | (self._landlock(folders) if backend == "landlock" else {})

    def _open_directory(self, path: str) -> int:
        """Open a working directory, beneath its root if it has one."""
        try:
            place = Roots(self._roots).place(path)
        except OutsideError:
            return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return open_folder(place.root.descriptor, place.path)

    def _bubblewrap(
        self, argv: Sequence[str], environment: Mapping[str, str], directory: str, folders: _Folders
    ) -> dict[str, Any]:
        program = shutil.which("bwrap")
        if program is None:
            raise NoSandboxError("bubblewrap is not installed: install the package 'bubblewrap'")
        inside = os.geteuid() != 0 and self.limits.processes is not None
        if inside:
            # In the user namespace of the sandbox this counts only processes in the sandbox.
            argv = ["prlimit", f"--nproc={self.limits.processes}", "--", *argv]
        line = [program, "--unshare-all", "--unshare-user", "--uid", _NOBODY, "--gid", _NOBODY]
        line += ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
        line += ["--seccomp", str(SECCOMP_FD), "--json-status-fd", str(STATUS_FD)]
        line += ["--share-net"] if self.network else ["--hostname", "sandbox"]
        line += self._mounts(folders)
        for name, value in environment.items():
            line += ["--setenv", name, value]
        return {
            "argv": [*line, "--chdir", directory, "--", *argv],
            "environment": {},  # else the program could read it in /proc/1/environ
            "own_processes": _OWN_PROCESSES,
            "limits_inside": inside,
            "seccomp": self._filter(namespaces=True),
        }

    def _mounts(self, folders: _Folders) -> list[str]:
        """Return the arguments that mount each place, outer ones first."""
        most = self.limits.memory_bytes
        size = [] if most is None else ["--size", str(most)]
        places = {path: _system_mount(path) for path in self._system() if Path(path).exists()}
        for bind, roots in (("--ro-bind-fd", self._read_only), ("--bind-fd", self._roots)):
            for path, fd in folders.add_all(roots).items():
                places[path] = [bind, str(fd), path]
        places |= {
            "/dev": ["--dev", "/dev", *size, "--tmpfs", "/dev/shm"],  # noqa: S108 - in the sandbox
            # Read-only: a program started by root could change kernel settings.
            "/proc": ["--proc", "/proc", "--remount-ro", "/proc"],
        }
        places.setdefault("/tmp", [*size, "--tmpfs", "/tmp"])  # noqa: S108 - in the sandbox
        outer_first = sorted(places, key=lambda path: (len(Path(path).parts), path))
        return [argument for path in outer_first for argument in places[path]]

    def _landlock(self, folders: _Folders) -> dict[str, Any]:
        abi = launcher.landlock_abi()
        if abi < launcher.LANDLOCK_ABI:
            raise NoSandboxError(
                f"the kernel has version {abi} of Landlock, and {launcher.LANDLOCK_ABI} is needed "
                "(Linux 6.12)"
            )
        return {
            "landlock": {
                "read": [*self._system(), *folders.add_all(self._read_only).values()],
                "write": [*_DEVICES, *folders.add_all(self._roots).values()],
            },
            "seccomp": self._filter(namespaces=False),
        }

    def _system(self) -> Sequence[str]:
        """Return the paths of the system that programs may read."""
        return (*_SYSTEM, *_SYSTEM_FILES, *(_NETWORK_FILES if self.network else ()))

    def _filter(self, *, namespaces: bool) -> str:
        if namespaces in self._filters:
            return self._filters[namespaces]
        try:
            code = filter_code(namespaces=namespaces, network=self.network)
        except (ImportError, OSError, RuntimeError) as error:
            raise NoSandboxError(
                f"the system call filter cannot be created ({error}): install the extra 'sandbox' "
                "and libseccomp"
            ) from error
        self._filters[namespaces] = base64.b64encode(code).decode()
        return self._filters[namespaces]

    # --- the launcher ------------------------------------------------------------------------

    def _launch(self, job: _Command, backend: str) -> Running:
        """Send a request, and close the descriptors passed to the program."""
        with contextlib.ExitStack() as sent:
            folders = _Folders(sent)
            request = self._request(job, backend, folders)
            request["folders"] = len(folders.fds)
            control, theirs = socket.socketpair()
            sent.callback(theirs.close)
            owner = os.pidfd_open(os.getpid())  # with which the launcher detects our death
            sent.callback(os.close, owner)
            outputs: dict[Stream, int] = {}
            fds = [_file(sent, json.dumps(request).encode()), theirs.fileno(), owner]
            fds.append(_file(sent, job.input or b""))
            for stream in ("stdout", "stderr"):
                outputs[stream], writing = os.pipe()
                sent.callback(os.close, writing)
                fds.append(writing)
            channel: socket.socket | None = None
            if job.has_channel:
                channel, programs = socket.socketpair()
                sent.callback(programs.close)
                fds.append(programs.fileno())
            fds += folders.fds
            running = Running(
                control,
                outputs,
                program=job.argv[0],
                is_wrapped=backend == "bubblewrap",
                output_bytes=self.limits.output_bytes,
                on_output=job.on_output,
                channel=channel,
            )
            try:
                self._send(fds)
            except BaseException:
                running.close()
                raise
        return running

    def _send(self, fds: Sequence[int]) -> None:
        if self._launcher is not None:
            try:
                socket.send_fds(self._launcher.connection, [b"."], fds)
            except OSError:  # the launcher has ended: a new one is started below
                self.close()
            else:
                return
        self._launcher = _start_launcher()
        self._end = weakref.finalize(self, self._launcher.end)
        socket.send_fds(self._launcher.connection, [b"."], fds)


def _start_launcher() -> _LauncherProcess:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", launcher.__file__, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            cwd="/",
            env={key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a keyboard interrupt must not reach it
        )
    return _LauncherProcess(connection=ours, process=process)


def _file(sent: contextlib.ExitStack, data: bytes) -> int:
    """Return a descriptor of a file in memory with this content, positioned at its start."""
    fd = os.memfd_create("leonidas")
    sent.callback(os.close, fd)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def _wait_until_ended(running: Running) -> None:
    """Wait at most 10 seconds until the program has ended, even if this task is cancelled."""
    loop = asyncio.get_running_loop()
    ends, cancelled = loop.time() + _GRACE_SECONDS, None
    waiting = asyncio.ensure_future(running.ended())
    while not waiting.done() and loop.time() < ends:
        try:
            await asyncio.wait([waiting], timeout=ends - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
    if not waiting.done():
        waiting.cancel()
        logger.warning("A program in the sandbox did not end within %.0f s", _GRACE_SECONDS)
    if cancelled is not None:
        raise cancelled


def _check_words(words: Sequence[str]) -> None:
    """Check that the system can pass these arguments to a program."""
    for word in words:
        try:
            data = os.fsencode(word)
        except UnicodeEncodeError:
            raise UnrunnableError from None
        if b"\0" in data or len(data) > MAX_ARGUMENT_BYTES:
            raise UnrunnableError


def _program(name: str, path: str) -> str:
    """Return the path of a program."""
    executable = shutil.which(name, path=path)
    if executable is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return executable


def _open_roots(paths: Sequence[str | Path | Root]) -> tuple[Root, ...]:
    return tuple(each if isinstance(each, Root) else Root(each) for each in paths)


class _Folders:
    """The descriptors of folders and files that are sent with a request."""

    def __init__(self, sent: contextlib.ExitStack) -> None:
        self.fds: list[int] = []
        self._sent = sent

    def add_all(self, roots: Sequence[Root]) -> dict[str, int]:
        """Return the numbers that roots have in the new process, by their paths."""
        return {str(root.path): self._add(root.descriptor) for root in roots}

    def add_ours(self, fd: int) -> int:
        """Return the number of a descriptor in the new process; it is closed once it is sent."""
        self._sent.callback(os.close, fd)
        return self._add(fd)

    def _add(self, fd: int) -> int:
        self.fds.append(fd)
        return FIRST_FOLDER_FD + len(self.fds) - 1


def _system_mount(path: str) -> list[str]:
    if Path(path).is_symlink() and path.count("/") == 1:
        return ["--symlink", str(Path(path).readlink()), path]
    return ["--ro-bind", path, path]
