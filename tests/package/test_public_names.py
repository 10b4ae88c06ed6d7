import subprocess
import sys

import pytest

import leonidas_tools

HEAVY = {
    "cryptography",
    "leonidas_tools.cli",
    "leonidas_tools.tools.discovery",
    "leonidas_tools.json_schema.coercion",
    "leonidas_tools.simulator",
    "leonidas_tools.live.speech.voice",
    "leonidas_tools.mcp.server",
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


WHAT_TOOLS_ARE_WRITTEN_WITH = {"calls", "errors", "json_schema", "redaction", "results", "tools"}
FRAMEWORKS = {
    "aiohttp",
    "anyio",
    "genai_processors",
    "google.genai",
    "google.protobuf",
    "httpx",
    "mcp",
    "prometheus_client",
    "sqlalchemy",
    "starlette",
    "websockets",
}


def test_the_public_names_are_sorted_and_there():
    assert leonidas_tools.__all__ == sorted(leonidas_tools.__all__)
    assert all(hasattr(leonidas_tools, name) for name in leonidas_tools.__all__)


def test_the_import_loads_what_tools_are_written_with_and_nothing_that_runs_them():
    loaded = _loaded_by("import leonidas_tools")
    ours = {name.split(".")[1] for name in loaded if name.startswith("leonidas_tools.")}
    assert ours == WHAT_TOOLS_ARE_WRITTEN_WITH
    assert FRAMEWORKS & loaded == set()


@pytest.mark.slow
def test_the_stages_and_the_runtime_are_loaded_by_the_first_processor_not_by_its_import():
    loaded = _loaded_by("from leonidas_tools import AdvancedToolProcessor")
    parts = {"leonidas_tools.runtime.runtime", "leonidas_tools.settings.models"}
    assert parts & loaded == set()
    made = _loaded_by("from leonidas_tools import AdvancedToolProcessor; AdvancedToolProcessor()")
    assert parts <= made


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "from leonidas_tools import *; AdvancedToolProcessor(), GeminiLiveProcessor, tool",
        "from leonidas_tools import AdvancedToolProcessor, tool; AdvancedToolProcessor([])",
        "import leonidas_tools as l; assert 'ToolRegistry' in dir(l); l.ToolRegistry()",
        "import leonidas_tools.tools.tool; from leonidas_tools import tool; assert callable(tool)",
    ],
)
def test_a_public_name_is_there_however_it_is_asked_for(program):
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_what_is_no_public_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="'leonidas_tools' has no attribute 'Toll'") as caught:
        leonidas_tools.Toll  # noqa: B018 - naming it is what is tested
    assert (caught.value.name, caught.value.obj) == ("Toll", leonidas_tools)


@pytest.mark.parametrize(
    "program",
    ["import leonidas_tools", "import leonidas_tools; leonidas_tools.AdvancedToolProcessor()"],
)
def test_neither_the_import_nor_plain_tools_load_an_optional_part(program):
    assert HEAVY & _loaded_by(program) == set()


ASKED_ABOUT = """
import asyncio, sys
from leonidas_tools import AdvancedToolProcessor, Decision, tool
@tool(requires_approval=True)
def pay(amount: int) -> int:
    return amount

async def yes(request):
    return Decision.approve()

async def main():
    async with AdvancedToolProcessor([pay], approval=yes) as tools:
        before = set(sys.modules)
        assert (await tools.execute("pay", {"amount": 5})).result == 5
        print(*(name for name in set(sys.modules) - before if name.startswith("leonidas_tools")))

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_first_call_of_a_session_loads_nothing_even_where_a_person_is_asked():
    assert subprocess.check_output([sys.executable, "-c", ASKED_ABOUT], text=True).split() == []


def _loaded_by(program):
    program += "; import sys; print(*sys.modules)"
    return set(subprocess.check_output([sys.executable, "-c", program], text=True).split())
