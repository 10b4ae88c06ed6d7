"""A server that is one of our scripts, forked: `fork.py SOCKET SCRIPT [ARGUMENT …]`.

It stands for the server: it ends as the server does, and the server ends when it does.
"""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as forks:
    forks.connect(sys.argv[1])
    directory = os.getcwd()  # noqa: PTH109 - pathlib takes longer to import than all of this
    command = {"args": sys.argv[2:], "environment": dict(os.environ), "directory": directory}
    socket.send_fds(forks, [json.dumps(command).encode()], [0, 1, 2])
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # the server's alone, so that their end is seen
        os.dup2(nothing, number)
    forks.recv(100)  # the process
    code = int(forks.recv(100) or 1)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
