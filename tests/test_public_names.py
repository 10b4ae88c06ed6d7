import subprocess
import sys

import pytest

import leonidas_tools

HEAVY = {
    "cryptography",
    "leonidas_tools.cli",
    "leonidas_tools.discovery",
    "leonidas_tools.json_schema.coercion",
    "leonidas_tools.live.simulator",
    "leonidas_tools.live.speech.voice",
    "leonidas_tools.mcp.server",
    "leonidas_tools.monitoring.health",
    "leonidas_tools.monitoring.prometheus",
    "leonidas_tools.settings.document",
    "mcp",
    "numpy",
    "prometheus_client",
    "rapidfuzz",
    "ruamel.yaml",
    "typer",
    "watchfiles",
    "yaml",
}


def test_the_public_names_are_sorted_and_there():
    assert leonidas_tools.__all__ == sorted(leonidas_tools.__all__)
    assert all(hasattr(leonidas_tools, name) for name in leonidas_tools.__all__)


@pytest.mark.parametrize(
    "program",
    ["import leonidas_tools", "import leonidas_tools; leonidas_tools.AdvancedToolProcessor()"],
)
def test_neither_the_import_nor_plain_tools_load_an_optional_part(program):
    program += "; import sys; print(*sys.modules)"
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert HEAVY & set(printed.split()) == set()
