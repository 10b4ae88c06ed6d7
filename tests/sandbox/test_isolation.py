"""A table of attacks: nothing outside the roots is read or written, and no one else is reached."""

import contextlib
import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from tests.sandbox.boxes import PYTHON, sandbox

SECRET = "the combination is 7-31-9"
READS = {
    "by its path": "cat {outside}/secret",
    "by a link made inside": "ln -s {outside}/secret here; cat here",
    "by a link that was there": "cat link",
    "by a linked directory": "cat directory/secret; ls -R directory/",
    "by a hard link": "ln {outside}/secret here; cat here",
    "by dots": "cat ../outside/secret ../../outside/secret; cd ..; cat outside/secret",
    "by the root of another process": "cat /proc/{pid}/root{outside}/secret "
    "/proc/1/root{outside}/secret /proc/self/root{outside}/secret",
    "by the directory of another process": "cat /proc/{pid}/cwd/secret /proc/1/cwd{outside}/secret",
    "by the descriptors of another process": "for fd in /proc/{pid}/fd/* /proc/1/fd/*; do "
    "timeout 0.2 cat $fd; done < /dev/null",
    "by the memory of another process": "dd if=/proc/{pid}/mem bs=1 count=1",
    "by the environment of any process": "env; cat /proc/*/environ; ps eww",
    "by a mount": "mkdir m; mount --bind {outside} m; cat m/secret",
    "by a namespace": "unshare --user --map-root-user --mount cat {outside}/secret",
    "by another's namespace": "nsenter --target {pid} --mount cat {outside}/secret",
    "by another root": "chroot / cat {outside}/secret; pivot_root . .",
    "by another user": "su root -c 'cat {outside}/secret'; sudo -n cat {outside}/secret",
    "by a disk": "mknod disk b 8 0; mknod disk2 b 254 0; cat disk disk2 | head -c 100; "
    "cat /dev/sda /dev/vda /dev/mem /dev/kmsg /proc/kcore | head -c 100",
    "by a handle": PYTHON
    + """ -c 'import ctypes; print(ctypes.CDLL(None).open_by_handle_at(3, b"x" * 99, 0))'""",
    "by a copy": "cp -r {outside} copy; tar cf - {outside}; find / -name secret -exec cat {{}} +",
}


@pytest.fixture
def places(tmp_path, monkeypatch):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    (root / "link").symlink_to(outside / "secret")
    (root / "directory").symlink_to(outside)
    monkeypatch.setenv("LEONIDAS_TEST_SECRET", SECRET)
    return root, outside


async def attacked(backend, places, script, **options):
    root, outside = places
    script = script.format(outside=outside, root=root, pid=os.getpid(), python=PYTHON)
    async with sandbox(backend, root, limits={"timeout_seconds": 20}, **options) as box:
        return await box.run(["/bin/sh", "-c", script])


@pytest.mark.parametrize("attack", READS)
async def test_nothing_outside_the_roots_is_read(backend, places, attack):
    finished = await attacked(backend, places, READS[attack])
    assert SECRET not in finished.stdout + finished.stderr
    assert all(
        SECRET not in each.read_text(errors="replace")
        for each in places[0].rglob("*")
        if each.is_file() and not each.is_symlink()
    )


WRITES = {
    "by its path": "echo x > {outside}/secret; echo x > {outside}/new",
    "by a link": "echo x > link; echo x > directory/new; ln -s {outside} there; echo x > there/new",
    "by moving": "mv {outside}/secret .; touch new; mv new {outside}/; mv {root} {root}2",
    "by removing": "rm -rf {outside} {root}/../outside directory/",
    "by its mode": "chmod 777 {outside}/secret {outside}; chmod -R 777 directory/ link",
    "by its owner": "chown 1:1 {outside}/secret; touch -d 2001-01-01 {outside}/secret link",
    "by an attribute": PYTHON
    + """ -c 'import os; os.setxattr("{outside}/secret", "user.x", b"x")'""",
    "in the system": "echo x > /usr/bin/leonidas-attack; echo x > /etc/leonidas-attack; "
    "echo x > /bin/leonidas-attack; chmod 777 /usr/bin/env",
    "in the kernel": "echo x > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger-x; "
    "echo 9 > /proc/sys/vm/swappiness; echo x > /sys/kernel/uevent_helper",
    "in a control group": "echo $$ > /sys/fs/cgroup/pids/cgroup.procs; mkdir /sys/fs/cgroup/pids/x",
}


def _state(outside):
    secret = outside / "secret"
    status = secret.stat()
    kernel = ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness"]
    return (
        [secret.read_text(), status.st_mode, status.st_uid, status.st_mtime],
        [sorted(map(str, each.iterdir())) for each in (outside, outside.parent)],
        [Path(each).read_text() for each in kernel],
        Path("/usr/bin/env").stat().st_mode,
        [Path(each, "leonidas-attack").exists() for each in ("/etc", "/bin", "/usr/bin")],
    )


@pytest.mark.parametrize("attack", WRITES)
async def test_nothing_outside_the_roots_is_written(backend, places, attack):
    before = _state(places[1])
    await attacked(backend, places, WRITES[attack])
    assert _state(places[1]) == before


async def test_no_file_of_the_kernel_can_be_opened_for_writing(why_not, tmp_path):
    if why_not["bubblewrap"] is not None:
        pytest.skip(why_not["bubblewrap"])
    script = (
        "find /proc -not -path '/proc/[0-9]*' -not -path '/proc/self*' "
        "-not -path '/proc/thread-self*' -type f -writable 2>/dev/null"
    )
    async with sandbox("bubblewrap", tmp_path) as box:
        found = (await box.run(["/bin/sh", "-c", script])).stdout.split()
        opened = []
        for path in [*found, "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"]:
            tried = await box.run(["/bin/sh", "-c", f": >> {path}"])
            opened += [path] if tried.ok else []
    assert opened == []


async def test_its_own_files_can_be_read_and_written(backend, places):
    finished = await attacked(
        backend, places, "pwd; echo kept > new; mkdir d; mv new d/; ln -s new d/link; cat d/link"
    )
    assert finished.stdout == f"{places[0]}\nkept\n"
    assert (places[0] / "d" / "new").read_text() == "kept\n"


async def test_what_is_read_only_can_be_read_and_not_written(backend, places):
    outside = places[1]
    script = "cat {outside}/secret; echo x > {outside}/secret; rm -f {outside}/secret; true"
    finished = await attacked(backend, places, script, read_only=[outside])
    assert finished.stdout == SECRET
    assert (outside / "secret").read_text() == SECRET


async def test_a_temporary_file_is_private_to_a_run(backend, places):
    async with sandbox(backend, places[0]) as box:
        first = await box.run(["/bin/sh", "-c", "echo kept > $HOME/f && cat $HOME/f && pwd"])
        second = await box.run(["/bin/sh", "-c", "ls -A $HOME; ls /tmp/f"])
    assert first.stdout.startswith("kept\n")
    assert "f" not in second.stdout.split()


async def test_there_is_no_network(backend, places):
    with contextlib.ExitStack() as opened:
        tcp = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        abstract = opened.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0leonidas-{os.getpid()}-{backend}")
        abstract.listen()
        path = opened.enter_context(socket.socket(socket.AF_UNIX))
        directory = os.open(places[1], os.O_PATH)  # a path as short as those of sockets must be
        opened.callback(os.close, directory)
        path.bind(f"/proc/self/fd/{directory}/socket")
        path.listen()
        targets = [
            (socket.AF_INET, socket.SOCK_STREAM, tcp.getsockname()),
            (socket.AF_INET, socket.SOCK_DGRAM, udp.getsockname()),
            (socket.AF_UNIX, socket.SOCK_STREAM, abstract.getsockname()),
            (socket.AF_UNIX, socket.SOCK_STREAM, str(places[1] / "socket")),
        ]
        code = f"""
import os, socket
os.chdir("/")
for family, kind, address in {[(int(f), int(k), a) for f, k, a in targets]!r}:
    try:
        s = socket.socket(family, kind)
        s.connect(address)
        s.send(b"x")
        print("reached", address)
    except OSError as error:
        pass
for family in (16, 17, 31, 38, 40):
    try:
        print("made", socket.socket(family, socket.SOCK_RAW))
    except OSError:
        pass
try:
    print("looked up", socket.getaddrinfo("example.org", 80))
except OSError:
    pass
"""
        (places[0] / "attack.py").write_text(code)
        finished = await attacked(backend, places, "{python} attack.py")
        udp.setblocking(False)
        with pytest.raises(BlockingIOError):
            udp.recv(1)
    said = [line for line in finished.stdout.splitlines() if "reached" in line]
    # A datagram to an address in an empty network may be sent: nobody receives it.
    assert [line for line in said if str(targets[1][2]) not in line] == []
    assert "made" not in finished.stdout
    assert "looked up" not in finished.stdout
    assert finished.exit_code == 0


async def test_the_network_can_be_allowed(backend, places):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"hello")

        thread = threading.Thread(target=answer)
        thread.start()
        (places[0] / "get.py").write_text(
            f"import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(9))"
        )
        finished = await attacked(backend, places, "{python} get.py", network=True)
        if not finished.ok:
            socket.create_connection(("127.0.0.1", port)).close()
        thread.join()
    assert finished.stdout == "b'hello'\n"


OTHERS = {
    "a signal": "kill -9 {pid}; kill -STOP {pid}",
    "a limit": "prlimit --pid {pid} --nofile=1:1",
    "a debugger": PYTHON + " -c 'import ctypes; print(ctypes.CDLL(None).ptrace(16, {pid}, 0, 0))'",
    "its priority": "renice 19 -p {pid}; taskset -p 1 {pid}",
    "its memory": "echo x > /proc/{pid}/mem; echo 1000 > /proc/{pid}/oom_score_adj",
}


@pytest.mark.parametrize("attack", OTHERS)
async def test_no_other_process_is_reached(backend, places, attack):
    import resource

    def state():
        return (
            resource.getrlimit(resource.RLIMIT_NOFILE),
            os.getpriority(os.PRIO_PROCESS, 0),
            os.sched_getaffinity(0),
            Path("/proc/self/oom_score_adj").read_text(),
        )

    before = state()
    await attacked(backend, places, OTHERS[attack])
    assert state() == before


async def test_it_has_no_privileges(backend, places):
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0))
print([n for n in range(41) if libc.prctl(23, n, 0, 0, 0) == 1])
"""
    (places[0] / "ask.py").write_text(code)
    finished = await attacked(backend, places, "{python} ask.py")
    # No new privileges, a filter, and not one capability that could be gained.
    assert finished.stdout == "1 2\n[]\n"


async def test_a_device_file_in_a_root_is_no_way_out(why_not, places):
    if why_not["bubblewrap"] is not None:
        pytest.skip(why_not["bubblewrap"])
    if os.getuid() != 0:
        pytest.skip("the kernel lets only root make a device file, which CI is")
    root, _ = places
    os.mknod(root / "zero", 0o20666, os.makedev(1, 5))
    finished = await attacked("bubblewrap", places, "head -c 3 zero | wc -c")
    assert finished.stdout == "0\n"


async def test_no_file_is_left_that_runs_with_the_rights_of_our_user(backend, places):
    root, _ = places
    script = (
        "for mode in u+s g+s 4755 2755; do cp /bin/sh $mode; chmod $mode $mode; done; chmod 700 u+s"
    )
    await attacked(backend, places, script)
    (root / "create.py").write_text("""
import contextlib, os
for number, mode in enumerate((0o4755, 0o2755)):
    for flags in (os.O_CREAT, os.O_TMPFILE):
        with contextlib.suppress(OSError):
            name = "." if flags == os.O_TMPFILE else f"open{number}"
            made = os.open(name, os.O_RDWR | flags, mode)
            os.link(f"/proc/self/fd/{made}", f"linked{number}{flags}")
    with contextlib.suppress(OSError):
        os.mknod(f"mknod{number}", mode)
os.open("plain", os.O_CREAT | os.O_WRONLY, 0o755)
""")
    assert (await attacked(backend, places, "{python} create.py")).ok
    modes = {each.name: each.stat().st_mode for each in root.iterdir() if each.is_file()}
    assert {"u+s", "g+s", "4755", "2755", "plain"} <= modes.keys()
    assert [name for name in modes if modes[name] & (stat.S_ISUID | stat.S_ISGID)] == []


async def test_a_fifo_that_has_no_other_end_waits_until_the_time_is_over(backend, places):
    os.mkfifo(places[0] / "fifo")
    async with sandbox(backend, places[0]) as box:
        finished = await box.run(["cat", "fifo"], timeout_seconds=0.2)
    assert finished.stopped_by == "timeout"


async def test_a_program_has_no_descriptors_but_its_own(backend, places):
    finished = await attacked(
        backend,
        places,
        "for n in $(seq 3 60); do (true >&$n) 2>/dev/null && echo $n; done; echo end",
    )
    assert finished.stdout == "end\n"


async def test_no_permission_is_an_error_of_the_program(backend, places):
    (places[0] / "mine").write_text("x")
    finished = await attacked(backend, places, "cat /etc/shadow; echo after")
    assert finished.stdout == "after\n"
    assert "cat:" in finished.stderr


async def test_input_arrives_and_quoting_stays(backend, places):
    words = ["a b", "$HOME", "`id`", "'", '"', "\\", "*", "", "-n", "\n", "ü 漢"]
    code = "import sys; print(sys.argv[1:] == eval(sys.stdin.read()))"
    async with sandbox(backend, places[0]) as box:
        finished = await box.run([PYTHON, "-c", code, *words], input=repr(words).encode())
    assert finished.stdout == "True\n"


async def test_a_program_that_is_not_there_is_named(backend, places):
    async with sandbox(backend, places[0]) as box:
        with pytest.raises(FileNotFoundError, match="no-such-program"):
            await box.run(["no-such-program"])


async def test_python_can_be_had_in_it(backend, places):
    async with sandbox(backend, places[0]) as box:
        finished = await box.run([PYTHON, "-c", "import ssl, json; print(1 + 1)"])
    assert finished.stdout == "2\n"
