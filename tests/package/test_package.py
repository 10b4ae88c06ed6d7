"""The package as it is built: metadata, page, licence."""

import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel as an installer does."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    done = subprocess.run([*build, ROOT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as opened:
        yield opened


def metadata_of(wheel):
    (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


@pytest.mark.slow
def test_the_page_of_the_package_has_no_link_that_leads_nowhere(wheel):
    page = metadata_of(wheel).get_payload()
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []
    assert page.startswith("# Leonidas Tools")


@pytest.mark.slow
def test_the_wheel_holds_licence_settings_and_types(wheel):
    names = wheel.namelist()
    assert any(each.endswith("/licenses/LICENSE") for each in names)
    assert "leonidas_tools/_defaults/tools.yaml" in names
    assert "leonidas_tools/_defaults/scenarios/demo.yaml" in names
    assert "leonidas_tools/py.typed" in names
    assert not [each for each in names if each.startswith("tests/")]


@pytest.mark.slow
def test_the_metadata_says_who_and_what(wheel):
    metadata = metadata_of(wheel)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "The Leonidas Tools maintainers"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
