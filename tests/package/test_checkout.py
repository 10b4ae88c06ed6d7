"""The files that contributors work with: hooks, lock and changelog."""

import shutil
import subprocess
import sys
import tomllib
from datetime import date
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FRAGMENTS = ROOT / "changelog.d"
TYPES = ("security", "added", "changed", "deprecated", "removed", "fixed")


def test_hooks_run_the_checks_of_make():
    make = [
        "make",
        "--no-print-directory",
        "--dry-run",
        "--old-file=.venv/.installed",
        "lint",
        "types",
        "contracts",
    ]
    printed = subprocess.check_output(make, cwd=ROOT, text=True)
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in local["hooks"]] == printed.splitlines()
    assert {hook["language"] for hook in local["hooks"]} == {"system"}  # nothing is downloaded


def locked(python):
    """Return the locked versions by name for a version of Python."""
    environment = default_environment() | {
        "python_version": python,
        "python_full_version": f"{python}.9",
    }
    pins = map(Requirement, (ROOT / "requirements.lock").read_text().splitlines())
    here = [pin for pin in pins if not pin.marker or pin.marker.evaluate(environment)]
    assert [pin for pin in here if pin.url] == []
    versions = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in here}
    assert len(versions) == len(here)
    return versions


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_lock_pins_every_dependency(python):
    """Else: `make lock` writes it anew."""
    versions = locked(python)
    extras = PROJECT["optional-dependencies"].values()
    wanted = map(Requirement, {*PROJECT["dependencies"], *chain.from_iterable(extras)})
    pairs = [(each, versions.get(canonicalize_name(each.name))) for each in wanted]
    assert [each for each, version in pairs if not (version and version in each.specifier)] == []
    assert "torch" not in versions  # gigabytes that nothing here needs


def test_version_and_changelog_agree():
    """A release is the newest section, and leaves no fragments."""
    text = (ROOT / "CHANGELOG.md").read_text()
    newest = next(line for line in text.splitlines() if line.startswith("## "))
    number, when = newest.removeprefix("## ").split(" ", 1)
    version = Version(PROJECT["version"])
    if version.is_devrelease:
        assert (
            when == "(unreleased)" if number == version.base_version else Version(number) < version
        )
    else:
        assert number == str(version)
        assert date.fromisoformat(when.strip("()"))
        assert [file.name for file in FRAGMENTS.iterdir()] == ["README.md"]


def towncrier(folder, *options):
    command = [sys.executable, "-m", "towncrier", "build", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_fragment_has_a_type():
    done = towncrier(ROOT, "--draft", "--version", "next")
    assert done.returncode == 0, done.stderr


def test_a_release_collects_the_fragments(tmp_path):
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    folder = tmp_path / FRAGMENTS.name
    folder.mkdir()
    for kind in TYPES:
        (folder / f"+calls.{kind}.md").write_text(f"Calls: {kind}.\n")
    (folder / "42.security.md").write_text("Calls end.\n")
    done = towncrier(tmp_path, "--yes", "--version", "9.0.0", "--date", "2030-01-31")
    assert done.returncode == 0, done.stderr
    sections = [f"### {kind.title()}\n\n- Calls: {kind}.\n\n" for kind in TYPES]
    sections[0] = "### Security\n\n- Calls end. (#42)\n- Calls: security.\n\n"
    marker = "<!-- towncrier release notes start -->\n\n"
    added = f"{marker}## 9.0.0 (2030-01-31)\n\n{''.join(sections)}\n"
    before = (ROOT / "CHANGELOG.md").read_text()
    assert (tmp_path / "CHANGELOG.md").read_text() == before.replace(marker, added)
    assert list(folder.iterdir()) == []
