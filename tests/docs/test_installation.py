"""What the documentation says of an installation is so."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGE = ("cv2", "numpy", "googleapiclient")
PROGRAM = f"""
import sys
from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor, LiveToolSession
import leonidas_tools.simulator
AdvancedToolProcessor()
print(*(name for name in {LARGE!r} if name in sys.modules))
"""


@pytest.mark.slow
def test_neither_the_library_nor_the_simulator_loads_what_is_large():
    said = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True)
    assert said.split() == []


def test_the_page_names_every_extra():
    page = (ROOT / "docs" / "installation.md").read_text()
    named = re.findall(r"^\| `([\w-]+)` \|", page, re.M)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(named) == extras.keys() - {"voice-test"}  # only for tests here
