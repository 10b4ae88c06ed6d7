"""The public face: the names that users rely on."""

import ast
import importlib
import inspect
import subprocess
import sys
import types
from pathlib import Path

import pytest

import leonidas_tools

PROMISED = [
    "tool",
    "Tool",
    "ToolMetadata",
    "ToolCategory",
    "ToolPriority",
    "ToolStatus",
    "ToolEffect",
    "ToolCall",
    "ToolResult",
    "Media",
    "ResultStatus",
    "ToolContext",
    "ToolRegistry",
    "ToolConfiguration",
    "AdvancedToolProcessor",
    "ToolRegistryProcessor",
    "ConfigurationProcessor",
    "ActionToolProcessor",
    "SpeechControlProcessor",
    "PythonFunctionProcessor",
    "MCPToolProcessor",
    "MonitoringProcessor",
    "LiveToolSession",
]


@pytest.mark.parametrize("name", PROMISED)
def test_what_is_promised_can_be_imported(name):
    assert name in leonidas_tools.__all__
    assert getattr(leonidas_tools, name) is not None


def test_the_list_of_names_is_sorted_and_without_doubles():
    assert leonidas_tools.__all__ == sorted(set(leonidas_tools.__all__))


def test_the_list_of_names_is_what_there_is_and_what_a_type_checker_reads():
    tree = ast.parse(Path(leonidas_tools.__file__).read_text())
    read = {
        alias.asname or alias.name: getattr(importlib.import_module(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("leonidas_tools.")
        for alias in node.names
    }
    assert read == {name: getattr(leonidas_tools, name) for name in leonidas_tools.__all__}
    assert not any(isinstance(thing, types.ModuleType) for thing in read.values())


@pytest.mark.parametrize("name", leonidas_tools.__all__)
def test_every_public_name_says_what_it_is(name):
    thing = getattr(leonidas_tools, name)
    assert inspect.getdoc(thing).splitlines()[0].endswith(".")
    assert thing.__module__.startswith("leonidas_tools.")


def test_nothing_is_done_by_the_import():
    program = (
        "import threading, asyncio, logging, leonidas_tools as l;"
        "assert threading.active_count() == 1;"
        "assert not logging.getLogger('leonidas_tools').handlers;"
        "assert not logging.getLogger().handlers;"
        "l.ToolRegistry()"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
