"""A server that starts a child, and neither of them ends when asked to."""

import os
import signal
import subprocess
import sys

from mcp.server.mcpserver import MCPServer
from serving import run

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        run(MCPServer("stubborn"))
    finally:
        signal.pause()
        os.abort()
