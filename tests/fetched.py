"""Packages that are not among our dependencies: pinned, and fetched once into `.cache`."""

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[1] / ".cache"
_SECONDS = 240


def fetched(name, *commands):
    """Return the folder `name` of the cache, which `commands` fill unless it exists.

    A lock makes other workers and other runs wait for the one that fetches; only a complete folder
    gets the final name. A test whose package cannot be fetched is skipped, and fails in CI.

    Args:
        name: The path in the cache, with the pinned version in it.
        commands: Run one after the other in an empty folder.
    """
    folder = CACHE / name
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(
                dir=folder.parent, ignore_cleanup_errors=True
            ) as fresh:
                for command in commands:
                    _run(command, fresh)
                Path(fresh).rename(folder)
    return folder


def missing(why):
    """Skip the test for want of a package, or fail it in CI, where nothing may be missing."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def _run(command, folder):
    shown = " ".join(map(str, command))
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip()[-1000:]
        missing(f"{shown!r} exited with code {error.returncode}: {said}")
    except (OSError, subprocess.TimeoutExpired) as error:
        missing(f"{shown!r} failed: {error}")
