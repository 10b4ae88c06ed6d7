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
    """Programs can be forked inside."""
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


def fork_command(script, *args):
    """The command that stands for a script, which is forked."""
    fork = (sys.executable, "-I", "-S", SCRIPTS / "fork.py", os.environ[VARIABLE])
    return list(map(str, (*fork, script, *args)))


def forked(name, *args, **settings):
    """The settings of a server that is one of our scripts, forked."""
    command, *args = fork_command(SCRIPTS / name, *args)
    return {"command": command, "args": args, **settings}


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
