"""Start programs for `Sandbox`: a separate program that imports only the standard library.

A Python interpreter takes longer to start than bubblewrap does, so one launcher runs for each
`Sandbox` and forks a supervisor for every program. A supervisor adopts all descendants of its
program. It kills them when the program ends or times out, or when the requesting process closes
its connection or dies, by whatever signal.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import errno
import fcntl
import gc
import itertools
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

SECCOMP_FD, STATUS_FD, CHANNEL_FD, FIRST_FOLDER_FD = 10, 11, 3, 12
"""The file descriptors of the filter, of the status pipe, of a program's channel to us, and of the
first folder."""
_MAX_FDS_IN_REQUEST = 253
"""The most that Linux sends in a message: the request, the connection, the requesting process, the
standard streams, the channel if there is one, and the folders."""
_FDS_OF_SUPERVISOR = 3
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 22, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_SECCOMP_MODE_FILTER = 2
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_FLAG_VERSION = 1
_MAX_STATUS_BYTES = 4096
_QUIET_SECONDS = 0.05
_libc = ctypes.CDLL(None, use_errno=True)

# Access rights of Landlock for directories and files.
_READ = 1 << 0 | 1 << 2 | 1 << 3
_ON_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_NO_DEVICES = ~(1 << 6 | 1 << 11 | 1 << 15)
_ALL = (1 << 16) - 1
_NETWORK, _SCOPES = 0b11, 0b11
LANDLOCK_ABI = 6
"""The first version that keeps a program from sending signals to other processes."""


class _CannotError(Exception):
    """Raised when a requested limit or isolation is not available."""


def serve(connection: socket.socket) -> None:
    """Keep one supervisor ready until the connection closes; return when all have ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies: supervisors send reports themselves
    gc.freeze()
    numbers = itertools.count(1)
    supervisors = {_fork_supervisor(connection, next(numbers))}
    while supervisors:
        for fd in _ready(tuple(supervisors), None):
            if os.read(fd, 1):
                supervisors.add(_fork_supervisor(connection, next(numbers)))
            else:
                os.close(fd)
                supervisors.remove(fd)
    with contextlib.suppress(ChildProcessError):  # supervisors close their pipes before they exit
        os.wait()


def _fork_supervisor(connection: socket.socket, number: int) -> int:
    """Return a pipe: readable when another supervisor is needed, closed when this one ends."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        _be_supervisor(connection, writing, f"leonidas-{os.getppid()}-{number}")
    os.close(writing)
    return reading


def _be_supervisor(connection: socket.socket, taken: int, name: str) -> NoReturn:
    with contextlib.suppress(OSError):  # the owner may be dead
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        groups = _Groups(name)
        try:
            _Supervisor(groups).run(connection, taken)
        finally:
            groups.remove()
    os._exit(0)


class _Supervisor:
    """Runs one program, and kills all its descendants.

    The child is forked before the request arrives, so a request waits neither for a new process
    nor for the control groups.
    """

    def __init__(self, groups: _Groups) -> None:
        self._groups = groups
        self._child = 0
        self._has_called = False

    def run(self, connection: socket.socket, taken: int) -> None:
        """Wait for a request, run its program and send a report."""
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        ours, childs = socket.socketpair()
        problem_out, problem_in = os.pipe()
        status_out, status_in = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(taken)
            _be_program(connection, childs, self._groups, (problem_in, status_in))
        for each in (connection, childs):
            each.close()
        os.close(problem_in)
        os.close(status_in)
        try:
            _, fds, _, _ = socket.recv_fds(ours, 1, _FDS_OF_SUPERVISOR)
            if fds:  # empty if the connection has closed
                self._supervise(fds, problem_out, status_out, taken)
        finally:
            self._end_all()

    def _supervise(self, fds: list[int], problem_out: int, status_out: int, taken: int) -> None:
        """Wait until the program ends or must be killed, and send a report."""
        control, owner, request = socket.socket(fileno=fds[1]), fds[2], _read_request(fds[0])
        try:
            deadline = time.monotonic() + request["timeout_seconds"]
            problem = os.read(problem_out, _MAX_STATUS_BYTES)  # returns when the program starts
            began = time.monotonic()
            watched = (control.fileno(), owner, os.pidfd_open(self._child))
            # A new supervisor would compete with the starting program for the processor.
            if not _ready(watched, time.monotonic() + _QUIET_SECONDS):
                self._call_next(taken)
            stopped_by = _wait(watched, deadline)
            seconds = time.monotonic() - began
        finally:
            code, usage = self._end_all()
            if request["private"]:  # removed here, as the owner may be dead
                with contextlib.suppress(OSError, RecursionError):
                    _remove(request["private"])
        report = {
            "problem": problem.decode(errors="replace"),
            "status": os.read(status_out, _MAX_STATUS_BYTES).decode(errors="replace"),
            "exit_code": code,
            "stopped_by": stopped_by or self._groups.reached() or _limit_reached(code),
            "seconds": seconds,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
        }
        control.sendall(json.dumps(report).encode())
        control.close()
        self._groups.remove()
        self._call_next(taken)

    def _call_next(self, taken: int) -> None:
        """Request another supervisor, once."""
        if not self._has_called:
            self._has_called = True
            with contextlib.suppress(OSError):  # the launcher may be gone
                os.write(taken, b"t")

    def _end_all(self) -> tuple[int, resource.struct_rusage]:
        """Kill all descendants; return the exit code of the program and their resource usage."""
        code, stops = -1, os.WNOHANG
        while True:
            try:
                pid, status = os.waitpid(-1, stops)
            except ChildProcessError:
                return code, resource.getrusage(resource.RUSAGE_CHILDREN)
            if pid == self._child:
                code = os.waitstatus_to_exitcode(status)
                code = code if code >= 0 else 128 - code
            stops = os.WNOHANG if pid else 0
            if not pid:
                self._kill_all()

    def _kill_all(self) -> None:
        """Kill all children; orphaned descendants then become children of this process."""
        self._groups.stop()
        for pid in _children():
            with contextlib.suppress(OSError):  # owned by another user, or exiting
                resource.prlimit(pid, resource.RLIMIT_NPROC, (0, 0))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _ready(watched: tuple[int, ...], until: float | None) -> set[int]:
    """Wait until some of the descriptors are readable, and return them."""
    poll = select.poll()
    for fd in watched:
        poll.register(fd, select.POLLIN)
    left = None if until is None else max(0.0, until - time.monotonic()) * 1000
    return {fd for fd, _ in poll.poll(left)}


def _wait(watched: tuple[int, ...], deadline: float) -> str | None:
    """Wait for the program, the last descriptor, to end; else return why it must be killed."""
    while time.monotonic() < deadline:
        ready = _ready(watched, deadline)
        if ready:
            return None if watched[-1] in ready else "cancelled"
    return "timeout"


def _remove(path: str, directory: int | None = None) -> None:
    """Remove a file, or a directory with all its content, without following links."""
    try:
        os.unlink(path, dir_fd=directory)
    except IsADirectoryError:
        os.chmod(path, 0o700, dir_fd=directory)
        inside = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        try:
            for name in os.listdir(inside):  # noqa: PTH208 - takes a descriptor
                _remove(name, inside)
        finally:
            os.close(inside)
        os.rmdir(path, dir_fd=directory)


def _children() -> list[int]:
    """Return the process ids of the children of this process."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
        return [int(pid) for pid in listed.split()]
    except FileNotFoundError:  # a kernel without this file
        return [pid for pid in _all_processes() if _parent_of(pid) == os.getpid()]


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - faster


def _parent_of(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return int(text.rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def _limit_reached(code: int) -> str | None:
    """Return the resource limit whose signal has killed the program."""
    return {128 + signal.SIGXCPU: "cpu", 128 + signal.SIGXFSZ: "file_size"}.get(code)


# --- control groups --------------------------------------------------------------------------


class _Groups:
    """The control groups of a program and its descendants, if any can be created."""

    def __init__(self, name: str) -> None:
        self.limited: set[str] = set()
        self._paths: list[Path] = []
        for where, controllers in _places():
            if not controllers <= self.limited:
                with contextlib.suppress(OSError):
                    (where / name).mkdir()
                    self._paths.append(where / name)
                    self.limited |= controllers

    def join(self) -> None:
        """Add this process to the groups."""
        for path in self._paths:
            _write(path / "cgroup.procs", 0)

    def limit(self, request: dict[str, Any]) -> None:
        """Set the limits of a request."""
        processes, memory = request["processes"], request["memory_bytes"]
        if processes is not None:
            self._set("pids.max", processes + request["own_processes"])
        if memory is not None:
            self._set("memory.limit_in_bytes", memory)
            self._set("memory.max", memory)
            self._set("memory.swap.max", 0)

    def stop(self) -> None:
        """Forbid new processes, and kill all processes of the groups."""
        self._set("pids.max", 0)
        for path in self._paths:
            with contextlib.suppress(OSError):
                for pid in (path / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)

    def reached(self) -> str | None:
        """Return `memory` if the kernel has killed a process that was out of memory."""
        for path in self._paths:
            for name in ("memory.oom_control", "memory.events"):
                with contextlib.suppress(OSError):
                    for line in (path / name).read_text().splitlines():
                        if line.startswith("oom_kill ") and line != "oom_kill 0":
                            return "memory"
        return None

    def remove(self) -> None:
        """Remove the groups, which are empty at this point."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                path.rmdir()

    def _set(self, name: str, value: int) -> None:
        """Set a limit in the groups that have it."""
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                _write(path / name, value)


def _write(path: Path, value: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def _places() -> list[tuple[Path, set[str]]]:
    """Return the directories where groups can be created, and their controllers."""
    places = []
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("pids", "memory"):
            places.append((Path(f"/sys/fs/cgroup/{controllers}{path}"), {controllers}))
        elif not controllers:
            # In version 2 only leaves have processes, so a new group is a sibling of our own.
            above = Path(f"/sys/fs/cgroup{path}").parent
            with contextlib.suppress(OSError):
                given = set((above / "cgroup.subtree_control").read_text().split())
                if given >= {"pids", "memory"}:
                    places.append((above, {"pids", "memory"}))
    return [(where, what) for where, what in places if os.access(where, os.W_OK)]


# --- in the new process ----------------------------------------------------------------------


def _be_program(
    connection: socket.socket,
    supervisor: socket.socket,
    groups: _Groups,
    pipes: tuple[int, int],
) -> NoReturn:
    problem, status = pipes
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        groups.join()
        _, fds, _, _ = socket.recv_fds(connection, 1, _MAX_FDS_IN_REQUEST)
        if fds:
            socket.send_fds(supervisor, [b"."], fds[:_FDS_OF_SUPERVISOR])
            _begin(fds, status, groups)
    except _CannotError as error:
        os.write(problem, f"cannot {error}".encode())
    except OSError as error:
        os.write(problem, f"{error.errno} {error.strerror}".encode())
    os._exit(127)


def _begin(fds: list[int], status: int, groups: _Groups) -> None:
    request = _read_request(fds[0])
    first_folder = len(fds) - request["folders"]
    streams = fds[_FDS_OF_SUPERVISOR:first_folder]
    _place_descriptors(request, streams, fds[first_folder:], status)
    if request["private"]:
        os.mkdir(request["private"], 0o700)  # noqa: PTH102 - plain `os` as in the whole module
    if request["working_directory"] is not None:
        os.fchdir(request["working_directory"])
    groups.limit(request)
    _set_limits(request, groups.limited)
    _keep_only(request, len(streams))
    if request["landlock"] is not None:
        _confine(request)
    os.execve(request["argv"][0], request["argv"], request["environment"])  # noqa: S606


def _read_request(fd: int) -> dict[str, Any]:
    """Read a request without moving the file offset, which other processes share."""
    request: dict[str, Any] = json.loads(os.pread(fd, os.fstat(fd).st_size, 0))
    return request


def _place_descriptors(
    request: dict[str, Any], streams: list[int], folders: list[int], status: int
) -> None:
    wanted = dict(enumerate(streams[:3]))
    if len(streams) > 3:  # noqa: PLR2004 - the standard streams
        wanted[CHANNEL_FD] = streams[3]
    wanted |= {FIRST_FOLDER_FD + number: fd for number, fd in enumerate(folders)}
    if request["landlock"] is None and request["seccomp"] is not None:
        wanted[STATUS_FD] = status
        wanted[SECCOMP_FD] = os.memfd_create("seccomp")
        os.write(wanted[SECCOMP_FD], base64.b64decode(request["seccomp"]))
        os.lseek(wanted[SECCOMP_FD], 0, os.SEEK_SET)
    # Duplicate above all targets first: a source may have the number of another target.
    first = max((*wanted, *wanted.values())) + 1
    above = {
        target: int(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, first)) for target, fd in wanted.items()
    }
    for target, fd in above.items():
        os.dup2(fd, target)


def _keep_only(request: dict[str, Any], streams: int) -> None:
    """Close all other descriptors on exec: with those of the launcher it could forge a report."""
    kept = set(range(streams))
    if request["landlock"] is None and request["seccomp"] is not None:
        # Bubblewrap closes the descriptors of folders, with which a program could leave them.
        kept |= {STATUS_FD, SECCOMP_FD}
        kept |= {FIRST_FOLDER_FD + number for number in range(request["folders"])}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - pathlib is slow to import
        if int(name) not in kept:
            with contextlib.suppress(OSError):  # the descriptor of the listing is closed
                os.set_inheritable(int(name), False)


def _set_limits(request: dict[str, Any], limited: set[str]) -> None:
    memory = request["memory_bytes"]
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: request["cpu_seconds"],
        resource.RLIMIT_FSIZE: request["file_bytes"],
        resource.RLIMIT_NOFILE: request["open_files"],
        # With a control group, a program may reserve more memory than it uses.
        resource.RLIMIT_DATA if "memory" in limited else resource.RLIMIT_AS: memory,
        resource.RLIMIT_NPROC: None if "pids" in limited else _max_threads_of_user(request),
    }
    for kind, value in limits.items():
        if value is not None:
            hard = value + 1 if kind == resource.RLIMIT_CPU else value
            inherited = resource.getrlimit(kind)[1]
            if inherited != resource.RLIM_INFINITY:
                hard = min(hard, inherited)
            resource.setrlimit(kind, (min(value, hard), hard))


def _max_threads_of_user(request: dict[str, Any]) -> int | None:
    """Return the maximum number of threads of the user, if nothing else limits it."""
    if request["processes"] is None or request["limits_inside"]:
        return None
    if os.getuid() == 0:
        raise _CannotError(
            "limit the number of processes: for root only a control group does, and none can be "
            "created here; run as another user, delegate a control group, or set processes to off"
        )
    ours = [pid for pid in _all_processes() if _is_ours(pid)]
    threads = sum(map(_threads_of, ours))
    return int(threads + request["processes"])


def _is_ours(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.getuid()
    except OSError:
        return False


def _threads_of(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - faster
    except OSError:
        return 0


def _confine(request: dict[str, Any]) -> None:
    """Restrict the privileges, files and system calls of this process, irrevocably."""
    if os.getuid() == 0:
        _drop_capabilities()
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    private = os.open(request["private"], os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    _restrict_files(request["landlock"]["read"], [*request["landlock"]["write"], private])
    code = base64.b64decode(request["seccomp"])
    instructions = ctypes.create_string_buffer(code, len(code))

    class _FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    program = _FilterProgram(len(code) // 8, ctypes.addressof(instructions))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))


def _drop_capabilities() -> None:
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text(encoding="ascii"))
    for capability in range(last + 1):
        _prctl(_PR_CAPBSET_DROP, capability)
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    _system_call(_CAPSET[os.uname().machine], header, bytes(24))


def _restrict_files(read: list[str | int], write: list[str | int]) -> None:
    """Allow these paths and open descriptors, and nothing else."""
    rules = struct.pack("QQQ", _ALL, 0, _SCOPES)
    ruleset = _system_call(_CREATE_RULESET, rules, len(rules), 0)
    for paths, access in ((read, _READ), (write, _ALL & _NO_DEVICES)):
        for path in paths:
            _allow(ruleset, path, access)
    _system_call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, place: str | int, access: int) -> None:
    try:
        fd = place if isinstance(place, int) else os.open(place, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not Path(f"/proc/self/fd/{fd}").is_dir():
        access &= _ON_FILES
    _system_call(_ADD_RULE, ruleset, 1, struct.pack("=Qi", access, fd), 0)
    os.close(fd)


def landlock_abi() -> int:
    """Return the Landlock version of the kernel; 0 if it has none."""
    version = int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _FLAG_VERSION))
    return max(version, 0)


def _system_call(number: int, *arguments: Any) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{os.strerror(code)} (system call {number})")
    return result


def _prctl(option: int, *arguments: int) -> None:
    values = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc.prctl(option, *values) < 0:
        code = ctypes.get_errno() or errno.EPERM
        raise OSError(code, f"{os.strerror(code)} (prctl {option})")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
