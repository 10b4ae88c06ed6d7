"""Programs in Python, forked from a process that has imported what they import.

It is the same program in a process of its own, there in milliseconds. What is special about it: our
child is a small process that stands for it. Where the processes are what a test is about, or how a
program starts, it starts the program itself.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPTS = Path(__file__).parent / "servers"
VARIABLE = "LEONIDAS_TEST_FORKS"


@contextlib.contextmanager
def forks():
    """Programs can be forked inside; where the system cannot say how they end, they are started."""
    if not _can_wait_for_processes():
        yield
        return
    with (
        tempfile.TemporaryDirectory(prefix="forks-") as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
    ):
        address = f"{directory}/socket"
        listening.bind(address)
        listening.listen(128)
        command = [sys.executable, str(SCRIPTS / "forks.py"), str(listening.fileno())]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[listening.fileno()],
        ) as process:
            assert process.stdout.readline() == b"ready\n"
            os.environ[VARIABLE] = address
            yield
            del os.environ[VARIABLE]
            process.stdin.close()


def _can_wait_for_processes():
    """Whether a process can be waited for beside sockets: on Linux, where nothing forbids it."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def fork_command(script, *args):
    """The command that stands for a script, which is forked."""
    if VARIABLE not in os.environ:
        script = Path(script)
        program = ["-m", script.parent.name] if script.name == "__main__.py" else [script]
        return list(map(str, (sys.executable, *program, *args)))
    fork = (sys.executable, "-I", "-S", SCRIPTS / "fork.py", os.environ[VARIABLE])
    return list(map(str, (*fork, script, *args)))


def forked(name, *args, **settings):
    """The settings of a server that is one of our scripts, forked."""
    command, *args = fork_command(SCRIPTS / name, *args)
    return {"command": command, "args": args, **settings}


def started(script, *args, env):
    """A script that runs, forked where that can be."""
    if VARIABLE in os.environ:
        return Fork(script, *args, env=env)
    command = [sys.executable, SCRIPTS / script, *map(str, args)]
    return _Started(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


class _Started(subprocess.Popen):
    def kill(self):
        super().kill()
        self.wait()
        self.stdout.close()


class Fork:
    """A script that runs, with its standard output, until it is killed."""

    def __init__(self, script, *args, env):
        self._forks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._forks.settimeout(60)
        self._forks.connect(os.environ[VARIABLE])
        output, write = os.pipe()
        self.stdout = os.fdopen(output, "rb")
        args = [str(SCRIPTS / script), *map(str, args)]
        command = {"args": args, "environment": env, "directory": str(Path.cwd())}
        with Path(os.devnull).open("r+b") as nothing:
            fds = [nothing.fileno(), write, nothing.fileno()]
            socket.send_fds(self._forks, [json.dumps(command).encode()], fds)
        os.close(write)
        self._pid = int(self._forks.recv(100))

    def send_signal(self, number):
        os.kill(self._pid, number)

    def kill(self):
        """Ends it, unless it has ended."""
        self._forks.shutdown(socket.SHUT_WR)
        self._forks.recv(100)
        self._forks.close()
        self.stdout.close()
