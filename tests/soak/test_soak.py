"""The soak in its short form: it ends, and finds nothing lost, doubled or left."""

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_lost_doubled_or_left_while_settings_connections_and_servers_fail() -> None:
    soak = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--sessions", "8", "--minutes", "0.2"],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert soak.returncode == 0, soak.stdout + soak.stderr
    assert soak.stdout.endswith("Nothing was lost, doubled or left.\n")
