"""Servers that are not among our dependencies: pinned, and installed once into `.cache`."""

import sys

from tests.fetched import fetched

_NODE_VERSION = "2026.8.31"
NODE_SERVERS = ("everything", "filesystem", "memory", "sequential-thinking")

_SQLITE_VERSION = "2025.4.25"
_OLD_SDK_VERSION = "1.30.0"
"""The last of the SDK that `mcp-server-sqlite` runs on; ours is two years younger."""


def node_server(name):
    """Return the script of a server for Node: one of `NODE_SERVERS`, installed together."""
    packages = [f"@modelcontextprotocol/server-{name}@{_NODE_VERSION}" for name in NODE_SERVERS]
    install = ("npm", "install", "--no-audit", "--no-fund", "--prefix", ".", *packages)
    folder = fetched(f"mcp/node-{_NODE_VERSION}", install)
    servers = folder / "node_modules" / "@modelcontextprotocol"
    return str(servers / f"server-{name}" / "dist" / "index.js")


def python_of_sqlite():
    """Return the Python of an environment with `mcp-server-sqlite` and the SDK of its time."""
    folder = fetched(
        f"mcp/sqlite-{_SQLITE_VERSION}-{sys.version_info.major}.{sys.version_info.minor}",
        # Without a pip of its own, which would take longer to install than all the rest.
        (sys.executable, "-m", "venv", "--without-pip", "."),
        (
            *(sys.executable, "-m", "pip", "--python", "bin/python"),
            *("install", "--quiet", "--no-compile"),
            *(f"mcp-server-sqlite=={_SQLITE_VERSION}", f"mcp=={_OLD_SDK_VERSION}"),
        ),
    )
    return str(folder / "bin" / "python")
