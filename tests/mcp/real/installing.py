"""Servers that are not among our dependencies: pinned, and installed once into `.cache`."""

import contextlib
import fcntl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_CACHE = Path(__file__).parents[3] / ".cache" / "mcp"
_SECONDS = 240
"""How long an installation may take, and how long another run's is waited for."""

_NODE_VERSION = "2026.8.31"
NODE_SERVERS = ("everything", "filesystem", "memory", "sequential-thinking")

_SQLITE_VERSION = "2025.4.25"
_OLD_SDK_VERSION = "1.30.0"
"""The last of the SDK that `mcp-server-sqlite` runs on; ours is two years younger."""


class NotInstalledError(Exception):
    """A server is not here, and could not be fetched."""


def node_server(name):
    """The script of a server for Node.

    Args:
        name: One of `NODE_SERVERS`; all are installed with the first.

    Raises:
        NotInstalledError: npm could not get them.
    """
    folder = _CACHE / f"node-{_NODE_VERSION}"
    packages = [f"@modelcontextprotocol/server-{name}@{_NODE_VERSION}" for name in NODE_SERVERS]

    def install(fresh):
        _run("npm", "install", "--no-audit", "--no-fund", "--prefix", str(fresh), *packages)

    _once(folder, install)
    servers = folder / "node_modules" / "@modelcontextprotocol"
    return str(servers / f"server-{name}" / "dist" / "index.js")


def python_of_sqlite():
    """The interpreter of an environment with `mcp-server-sqlite` and the SDK of its time.

    Raises:
        NotInstalledError: pip could not get them.
    """
    folder = _CACHE / f"sqlite-{_SQLITE_VERSION}-{sys.version_info.major}.{sys.version_info.minor}"
    packages = (f"mcp-server-sqlite=={_SQLITE_VERSION}", f"mcp=={_OLD_SDK_VERSION}")

    def install(fresh):
        # Without a pip of its own, which would take longer to install than all the rest.
        _run(sys.executable, "-m", "venv", "--without-pip", str(fresh))
        pip = (sys.executable, "-m", "pip", "--python", str(fresh / "bin" / "python"))
        _run(*pip, "install", "--quiet", "--no-compile", *packages)

    _once(folder, install)
    return str(folder / "bin" / "python")


def _once(folder, install):
    """Fills a folder, unless it is there; only a whole one ever has the final name."""
    if folder.exists():
        return
    with _alone():
        if folder.exists():
            return
        with tempfile.TemporaryDirectory(dir=_CACHE, ignore_cleanup_errors=True) as fresh:
            install(Path(fresh))
            Path(fresh).rename(folder)


@contextlib.contextmanager
def _alone():
    """Keeps out other runs of the tests."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + _SECONDS
    with (_CACHE / "lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise NotInstalledError(
                        f"another run has held {lock.name!r} too long"
                    ) from None
                time.sleep(0.2)
            else:
                break
        yield


def _run(*command):
    shown = " ".join(command)
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip()[-1000:]
        raise NotInstalledError(f"{shown!r} ended with {error.returncode}: {said}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{shown!r}: {error}") from error
