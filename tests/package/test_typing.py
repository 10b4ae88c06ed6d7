"""What users write passes a strict type checker."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_public_api_is_typed_for_its_users():
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        str(ROOT / "tests" / "package" / "typing_api.py"),
    ]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
