"""Start a program that outlives its starter, and report the outcome.

Run as `python -I detach.py SECONDS PROGRAM ARGUMENTS…`. It writes one JSON object: `errno` if the
program cannot be run, `code` if the program ends within the time, else `pid`.
"""

import json
import os
import select
import signal
import sys
from typing import NoReturn

_MAX_NUMBER_LENGTH = 16


def _run(command: list[str], failure: int) -> NoReturn:
    """Become the program, in its own session and without the streams of the starter."""
    os.setsid()
    for sign in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(sign, signal.SIG_DFL)  # Python changes them, and programs inherit that
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    try:
        os.execvp(command[0], command)  # noqa: S606 - a list, which no shell parses
    except (OSError, ValueError) as error:
        os.write(failure, str(getattr(error, "errno", 0) or 0).encode())
    os._exit(127)


def start(command: list[str], seconds: float) -> dict[str, int]:
    """Start a program, and watch whether it ends soon.

    Args:
        command: The program and its arguments.
        seconds: Seconds to watch the program.
    """
    failed, failure = os.pipe()  # `exec` closes it if it succeeds
    child = os.fork()
    if child == 0:
        _run(command, failure)
    os.close(failure)
    output = os.read(failed, _MAX_NUMBER_LENGTH)
    if output:
        os.waitpid(child, 0)
        return {"errno": int(output)}
    watch = select.poll()
    watch.register(os.pidfd_open(child), select.POLLIN)
    if watch.poll(seconds * 1000):
        return {"code": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}
    return {"pid": child}


if __name__ == "__main__":
    print(json.dumps(start(sys.argv[2:], float(sys.argv[1]))))  # noqa: T201 - the result
