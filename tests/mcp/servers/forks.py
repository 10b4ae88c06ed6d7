"""Forks what is written in Python: `forks.py SOCKET`, the number of a socket that listens.

What our scripts and the program import is imported once, which takes seconds of a processor; then
`ready` is printed, and a process is there in milliseconds. Whoever connects sends a command with
standard input, output and error, and is told the process and how it has ended; the process is
killed if they leave first. All end when standard input does.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

MAX_BYTES = 128 * 1024
IMPORTED = (
    "anyio._backends._asyncio",
    "leonidas_tools.cli.app",
    "leonidas_tools.cli.conversation",
    "leonidas_tools.cli.run",
    "leonidas_tools.cli.with_simulator",
    "leonidas_tools.live.gemini",
    "leonidas_tools.simulator",
    "leonidas_tools.mcp.connection.connection",
    "leonidas_tools.settings.document",
    "leonidas_tools.store.store",
    "mcp.server.elicitation",
    "mcp.server.mcpserver.resolve",
    "mcp.server.subscriptions",
    "serving",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
)


def preload():
    """Imports what the scripts import, and what their first message would."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()


class Forks:
    def __init__(self, listening):
        self._listening = listening
        self._servers = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ, self._accept)
        self._selector.register(0, selectors.EVENT_READ, self._end)

    def run(self):
        while True:
            for key, _ in self._selector.select():
                key.data(key.fileobj)

    def _accept(self, listening):
        client, _ = listening.accept()
        sent, fds, _, _ = socket.recv_fds(client, MAX_BYTES, 3)
        if not sent:  # they have left already
            client.close()
            return
        pid = os.fork()
        if pid == 0:
            self._close()
            client.close()
            become(fds, **json.loads(sent))
        for fd in fds:
            os.close(fd)
        ended = os.pidfd_open(pid)
        self._servers[client] = self._servers[ended] = (client, pid, ended)
        self._selector.register(client, selectors.EVENT_READ, self._kill)
        self._selector.register(ended, selectors.EVENT_READ, self._reap)
        tell(client, pid)

    def _kill(self, client):
        if client in self._servers:  # it may have ended at the same time
            self._selector.unregister(client)
            _, pid, _ = self._servers[client]
            os.kill(pid, signal.SIGKILL)

    def _reap(self, ended):
        client, pid, _ = self._servers.pop(ended)
        del self._servers[client]
        _, status = os.waitpid(pid, 0)
        tell(client, os.waitstatus_to_exitcode(status))
        self._selector.unregister(ended)
        os.close(ended)
        with contextlib.suppress(KeyError):
            self._selector.unregister(client)
        client.close()

    def _end(self, _):
        for _, pid, _ in self._servers.values():
            os.kill(pid, signal.SIGKILL)
        os._exit(0)

    def _close(self):
        """In a server: it holds nothing of the others."""
        self._selector.close()
        self._listening.close()
        for client, _, ended in set(self._servers.values()):
            client.close()
            os.close(ended)


def tell(client, number):
    with contextlib.suppress(OSError):
        client.send(str(number).encode())


def become(fds, args, environment, directory):
    """Runs a script as a Python that was started for it would."""
    code = 1
    try:
        os.setsid()
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
            os.close(fd)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - they are for the whole process
            for number, mode in enumerate(("r", "w", "w"))
        )
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)
        sys.argv = args
        script = Path(args[0])  # which of a package is run as by `python -m`
        sys.path[0] = directory if script.name == "__main__.py" else str(script.parent)
        code = run(script)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def run(script):
    """Runs it to the end of all that a Python waits for; how it has ended."""
    code = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()  # says of tasks and files that nobody has ended
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    preload()
    forks = Forks(socket.socket(fileno=int(sys.argv[1])))
    print("ready", flush=True)
    forks.run()
