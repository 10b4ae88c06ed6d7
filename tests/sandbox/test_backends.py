"""What each backend isolates: one program for each row, run in each backend.

The table is the one in the documentation. The column `none` shows that a program can tell.
"""

import contextlib
import ctypes
import errno
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.sandbox.boxes import PYTHON, sandbox

BACKENDS = ("bubblewrap", "landlock", "none")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sandbox.md"

START = """
import ctypes, os, signal, socket, sys
C = ctypes.CDLL(None, use_errno=True)
C.shmat.restype = ctypes.c_void_p
def check(result):
    if result in (-1, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "refused")
def send(kind, address, make=socket.socket):
    s = make(socket.AF_UNIX, kind)
    s = s[0] if isinstance(s, tuple) else s
    s.sendto(b"x", address)
def attempt(*ways):
    for way in ways:
        try:
            way()
            print("open")
        except OSError as error:
            print("isolated", error)
"""
PROBES = {
    "contents of files outside": """
attempt(lambda: open({secret!r}).read(), lambda: os.listdir({outside!r}))
""",
    "names of files outside": "attempt(lambda: os.stat({secret!r}))",
    "changes to files outside": """
attempt(
    lambda: open({secret!r}, "a"),
    lambda: open({outside!r} + "/new", "x"),
    lambda: os.truncate({secret!r}, 1),
    lambda: os.rename({secret!r}, {secret!r} + "2"),
)
""",
    "TCP to this machine": "attempt(lambda: socket.create_connection({tcp!r}, 1))",
    "Unix sockets": """
s = lambda: socket.socket(socket.AF_UNIX)
attempt(lambda: s().connect({stream!r}), lambda: s().connect({abstract!r}))
""",
    "Unix datagrams": """
attempt(
    lambda: send(socket.SOCK_DGRAM, {datagram!r}),
    lambda: send(socket.SOCK_DGRAM, {datagram!r}, socket.socketpair),
    lambda: send(socket.SOCK_RAW, {datagram!r}, socket.socketpair),
    lambda: send(socket.SOCK_DGRAM | (1 << 11), {datagram!r}, socket.socketpair),
)
""",
    "System V IPC": """
attempt(
    lambda: check(C.shmat({shm}, None, 0)),
    lambda: check(C.shmget({key}, 1, 0)),
    lambda: check(C.shmctl({shm}, 2, ctypes.create_string_buffer(512))),
    lambda: check(C.msgget({key}, 0)),
    lambda: check(C.msgsnd({msg}, ctypes.create_string_buffer(b"\\1" + b"\\0" * 15), 1, 0o4000)),
    lambda: check(C.semget({key}, 0, 0)),
    lambda: check(C.semctl({sem}, 0, 12)),
    lambda: check(C.semop({sem}, b"\\0\\0\\1\\0\\0\\0", 1)),
)
""",
    "POSIX message queues": """
attempt(lambda: check(ctypes.CDLL("librt.so.1", use_errno=True).mq_open({queue!r}.encode(), 1)))
""",
    "signals": """
attempt(
    lambda: os.kill({pid}, 0),
    lambda: signal.pidfd_send_signal(os.pidfd_open({pid}), 0),
    lambda: os.killpg({pid}, 0),
)
""",
    "memory of processes": """
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
into = ctypes.create_string_buffer(4)
attempt(
    lambda: open("/proc/{pid}/mem", "rb"),
    lambda: check(C.ptrace(0x4206, {pid}, 0, 0)),
    lambda: check(
        C.process_vm_readv(
            {pid},
            ctypes.byref(Part(ctypes.addressof(into), 4)),
            1,
            ctypes.byref(Part({address}, 4)),
            1,
            0,
        )
    ),
)
""",
    "priority and limits of processes": """
import resource
attempt(
    lambda: resource.prlimit({pid}, resource.RLIMIT_CORE, (0, 0)),
    lambda: os.setpriority(os.PRIO_PROCESS, {pid}, 19),
    lambda: os.setpriority(os.PRIO_PGRP, {pid}, 19),
    lambda: os.sched_setscheduler({pid}, os.SCHED_BATCH, os.sched_param(0)),
    lambda: os.sched_setaffinity({pid}, os.sched_getaffinity(0)),
)
""",
    "list of processes": "attempt(lambda: os.stat('/proc/{pid}'))",
    "environment of processes": 'attempt(lambda: open("/proc/{pid}/environ", "rb"))',
    "variables of this process": """
print("open" if "LEONIDAS_TEST_SECRET" in os.environ else "isolated")
""",
    "keyrings": """
attempt(
    lambda: check(C.syscall({keyctl}, 10, -4, b"user", {queue!r}.encode(), 0)),
    lambda: check(C.syscall({add_key}, b"user", b"leonidas", b"x", 1, -4)),
)
""",
    "namespaces and mounts": """
attempt(
    lambda: check(C.unshare(0x10000000)),
    lambda: check(C.unshare(0x00020000)),
    lambda: check(C.mount(b"none", {root!r}.encode(), b"tmpfs", 0, None)),
)
""",
    "io_uring": """
print("open" if C.syscall(425, 1, None) == -1 and ctypes.get_errno() == 14 else "isolated")
""",
    "more privileges": """
print("isolated" if C.prctl(39, 0, 0, 0, 0) == 1 else "open")
""",
}
LIMITS = {
    "time": ("sleep 60", {"timeout_seconds": 1}),
    "processor time": ("while :; do :; done", {"cpu_seconds": 1}),
    "memory": (f'{PYTHON} -c "bytearray(400 << 20)"', {"memory_bytes": 200 << 20}),
    "processes": ("for i in $(seq 30); do sleep 3 & done; wait", {"processes": 10}),
    "size of a file": ("head -c 3000000 /dev/zero > big", {"file_bytes": 1 << 20}),
    "output": ("yes", {"output_bytes": 1000}),
}
"""Programs that exceed a limit."""

TARGET = """
import ctypes, sys
text = ctypes.create_string_buffer(b"mine")
ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)
print(ctypes.addressof(text), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Everything outside that a program may try to reach."""
    libc, rt = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("librt.so.1", use_errno=True)
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("7-31-9")
    monkeypatch.setenv("LEONIDAS_TEST_SECRET", "7-31-9")
    name, key = f"leonidas-{secrets.token_hex(4)}", secrets.randbelow(1 << 30) + 1
    with contextlib.ExitStack() as stack:
        short = Path(stack.enter_context(tempfile.TemporaryDirectory()))  # for paths of sockets
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for kind, address in (
            (socket.SOCK_STREAM, str(short / "stream")),
            (socket.SOCK_STREAM, f"\0{name}"),
            (socket.SOCK_DGRAM, str(short / "datagram")),
        ):
            server = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            server.bind(address)
            if kind == socket.SOCK_STREAM:
                server.listen()
        shm, msg = libc.shmget(key, 4096, 0o1600), libc.msgget(key, 0o1600)
        sem = libc.semget(key, 1, 0o1600)
        stack.callback(libc.shmctl, shm, 0, None)
        stack.callback(libc.msgctl, msg, 0, None)
        stack.callback(libc.semctl, sem, 0, 0)
        queue = rt.mq_open(f"/{name}".encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
        stack.callback(os.close, queue)
        stack.callback(rt.mq_unlink, f"/{name}".encode())
        add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
        made = libc.syscall(add_key, b"user", f"/{name}".encode(), b"x", 1, -4)
        stack.callback(libc.syscall, keyctl, 3, made)
        target = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", TARGET],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        )
        stack.callback(target.kill)
        yield SimpleNamespace(
            root=str(root),
            outside=str(outside),
            secret=str(outside / "secret"),
            tcp=tcp.getsockname(),
            stream=str(short / "stream"),
            abstract=f"\0{name}",
            datagram=str(short / "datagram"),
            shm=shm,
            msg=msg,
            sem=sem,
            key=key,
            queue=f"/{name}",
            add_key=add_key,
            keyctl=keyctl,
            pid=target.pid,
            address=int(target.stdout.readline()),
        )


def documented():
    """Return the rows of the table in the documentation."""
    rows = re.findall(
        r"^\| ([^|`]+) \| (\w+) \| (\w+) \| (\w+) \|$", PAGE.read_text(), re.MULTILINE
    )
    return {name: dict(zip(BACKENDS, cells, strict=True)) for name, *cells in rows}


def test_every_row_of_the_documentation_is_tested():
    assert list(documented()) == [*PROBES, *LIMITS]


async def found(backend, host, row, **options):
    """Return what the program of a row found, the same in each of its ways."""
    program = START + PROBES[row].format(**vars(host))
    async with sandbox(backend, host.root, limits={"processes": None}, **options) as box:
        finished = await box.run([PYTHON, "-c", program])
    assert finished.ok, finished.stderr
    (word,) = {line.split()[0] for line in finished.stdout.splitlines()}
    return word


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", PROBES)
async def test_a_backend_isolates_what_is_documented(row, backend, host, why_not):
    if why_not[backend] is not None:
        pytest.skip(why_not[backend])
    assert await found(backend, host, row) == documented()[row][backend]


@pytest.mark.parametrize("row", ["Unix sockets", "Unix datagrams", "System V IPC", "signals"])
async def test_the_network_opens_no_other_way(row, backend, host):
    assert await found(backend, host, row, network=True) == "isolated"


async def test_a_system_call_that_is_newer_than_the_filter_is_refused(backend, tmp_path):
    code = """
import ctypes
C = ctypes.CDLL(None, use_errno=True)
print({(C.syscall(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno()) for number in range(452, 600)})
"""
    async with sandbox(backend, tmp_path) as box:
        finished = await box.run([PYTHON, "-c", code])
    assert finished.stdout == f"{{(-1, {errno.ENOSYS})}}\n"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", LIMITS)
async def test_a_backend_limits_what_is_documented(row, backend, tmp_path, why_not):
    if why_not[backend] is not None:
        pytest.skip(why_not[backend])
    script, limits = LIMITS[row]
    async with sandbox(backend, tmp_path, limits=limits) as box:
        finished = await box.run(["/bin/sh", "-c", script])
    assert ("open" if finished.ok else "limited") == documented()[row][backend]
