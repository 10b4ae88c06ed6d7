import subprocess
import sys

import leonidas_tools

HEAVY = {
    "cryptography",
    "mcp",
    "prometheus_client",
    "ruamel.yaml",
    "typer",
    "watchfiles",
}


def test_the_public_names_are_sorted_and_there():
    assert leonidas_tools.__all__ == sorted(leonidas_tools.__all__)
    assert all(hasattr(leonidas_tools, name) for name in leonidas_tools.__all__)


def test_the_import_loads_no_optional_part():
    program = "import sys, leonidas_tools; print(*sys.modules)"
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert HEAVY & set(printed.split()) == set()
