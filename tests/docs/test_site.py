"""The documentation is built without a warning, and every page can be reached."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "leonidas_tools" / "reference"


def test_the_site_is_built_without_a_warning(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")  # as `make docs` does
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    built = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {file.relative_to(ROOT / "docs") for file in (ROOT / "docs").rglob("*.md")}
    made = [tmp_path / "build" / "docs" / page.with_suffix("") for page in pages]
    assert [each for each in made if each.name != "index" and not each.is_dir()] == []


def test_every_page_of_the_reference_is_in_the_documentation_and_has_one_source():
    pages = {file.name: file for file in REFERENCE.glob("*.md")}
    shown = {file.name: file.resolve() for file in (ROOT / "docs" / "reference").glob("*.md")}
    assert {name: file for name, file in shown.items() if name != "index.md"} == pages


def test_the_navigation_leads_to_every_page():
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]

    def pages(entry):
        if isinstance(entry, str):
            return [entry]
        items = entry.values() if isinstance(entry, dict) else entry
        return [page for item in items for page in pages(item)]

    there = {str(file.relative_to(ROOT / "docs")) for file in (ROOT / "docs").rglob("*.md")}
    assert sorted(pages(settings["nav"])) == sorted(there)
