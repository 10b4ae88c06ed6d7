import json
import sys

import pytest
import typer
import yaml

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.cli import toolboxes
from leonidas_tools.errors import ConfigurationError, ToolboxError

SHOP = '''
from pydantic import BaseModel

from leonidas_tools import Toolbox, tool


class ShopSettings(BaseModel):
    """Settings of the shop.

    Args:
        currency: In which currency prices are told.
        key: The key of the shop.
    """

    currency: str = "EUR"
    key: str


@tool(effect="once", requires_approval=True)
def buy(item: str) -> str:
    """Buy something."""
    return item


TOOLBOX = Toolbox(
    summary="Buys.", settings=ShopSettings, make=lambda _: [buy], access=frozenset({"network"})
)
'''


@pytest.fixture
def list_toolboxes(invoke, tmp_path, monkeypatch):
    """Run the command with these settings in a folder with toolboxes in files."""
    path = list(sys.path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lt_cli_shop.py").write_text(SHOP)
    (tmp_path / "lt_cli_bomb.py").write_text("from leonidas_tools import tool\nTOOLS = []\n1 / 0\n")
    (tmp_path / "no_tools.py").write_text("def f(): ...\n1 / 0\n")
    (tmp_path / "no_python.py").write_text("def f(:")
    app = typer.Typer()
    app.command()(toolboxes.toolboxes)

    def run(settings, *options):
        (tmp_path / "tools.yaml").write_text(settings)
        return invoke(app, *options, "--config", tmp_path / "tools.yaml")

    yield run
    sys.path[:] = path
    sys.modules.pop("lt_cli_shop", None)


def test_toolboxes_are_listed_with_their_tools_and_what_those_may_do(list_toolboxes, tmp_path):
    settings = "toolboxes: [{lt_cli_shop: {key: k}}]\n"
    listed = {each["name"]: each for each in json.loads(list_toolboxes(settings, "--json").stdout)}
    assert listed["demo"]["source"] == "built-in"
    assert listed["demo"]["state"] == "can be loaded"
    assert "roll_dice" in [tool["name"] for tool in listed["demo"]["tools"]]
    assert listed["lt_cli_shop"] == {
        "name": "lt_cli_shop",
        "source": str(tmp_path / "lt_cli_shop.py"),
        "state": "in the settings",
        "summary": "Buys.",
        "access": ["network"],
        "reach": {
            "writes": [],
            "reads": [],
            "network": True,
            "programs": False,
            "backend": None,
            "store": False,
        },
        "tools": [
            {
                "name": "buy",
                "description": "Buy something.",
                "effect": "once",
                "requires_approval": True,
            }
        ],
        "settings": [
            {
                "name": "currency",
                "default": "EUR",
                "description": "In which currency prices are told.",
            },
            {"name": "key", "default": "required", "description": "The key of the shop."},
        ],
    }


def test_a_file_is_not_run_unless_it_is_named(list_toolboxes):
    listed = {each["name"]: each for each in json.loads(list_toolboxes("{}\n", "--json").stdout)}
    assert listed["lt_cli_bomb"]["state"] == "not imported"
    assert {"no_tools", "no_python"} & listed.keys() == set()
    shown = json.loads(list_toolboxes("{}\n", "lt_cli_bomb", "--json").stdout)
    assert "ZeroDivisionError" in shown["state"]


def test_what_keeps_a_toolbox_from_being_loaded_is_said(list_toolboxes):
    shown = json.loads(list_toolboxes("{}\n", "lt_cli_shop", "--json").stdout)
    assert shown["state"] == "needs settings: key is missing"
    wrong = "toolboxes: [{lt_cli_shop: {kez: k}}, lt_cli_missing]\n"
    listed = {each["name"]: each for each in json.loads(list_toolboxes(wrong, "--json").stdout)}
    assert "did you mean 'key'?" in listed["lt_cli_shop"]["state"]
    assert "There is no toolbox 'lt_cli_missing'" in listed["lt_cli_missing"]["state"]


def test_people_see_tables(list_toolboxes):
    settings = "toolboxes: [{lt_cli_shop: {key: k}}]\n"
    assert "roll_dice" in list_toolboxes(settings).stdout
    shown = list_toolboxes(settings, "lt_cli_shop").stdout
    assert "In which currency prices are told." in " ".join(shown.split())


def test_a_wrong_name_is_reported_with_the_closest_one(list_toolboxes):
    with pytest.raises(ConfigurationError, match="no toolbox 'dmo': did you mean 'demo'"):
        list_toolboxes("{}\n", "dmo")


def test_a_toolbox_of_the_package_names_the_extra_it_lacks(list_toolboxes, monkeypatch):
    from leonidas_tools.tools import discovery

    monkeypatch.setattr(discovery, "OWN_TOOLBOXES", {"demo": "game"})
    monkeypatch.setitem(sys.modules, "leonidas_tools.toolboxes.demo", None)
    shown = json.loads(list_toolboxes("{}\n", "demo", "--json").stdout)
    assert "pip install 'leonidas-tools[game]'" in shown["state"]


@pytest.mark.parametrize(
    ("name", "settings", "package"),
    [
        ("shell", "shell", "tree_sitter_bash"),
        ("shell", "shell", "pyseccomp"),
        ("code", "code", "pyseccomp"),
        ("code", "{code: {engine: monty}}", "pydantic_monty"),
    ],
)
def test_a_toolbox_whose_sandbox_cannot_start_names_the_extra_it_lacks(
    list_toolboxes, monkeypatch, name, settings, package
):
    monkeypatch.setitem(sys.modules, package, None)
    shown = json.loads(list_toolboxes(f"toolboxes: [{settings}]\n", name, "--json").stdout)
    assert shown["state"].endswith("pip install 'leonidas-tools[sandbox]'")
    with pytest.raises(ToolboxError, match="sandbox"):  # so nobody is asked to approve its calls
        AdvancedToolProcessor(config={"toolboxes": yaml.safe_load(f"[{settings}]")})


def test_without_isolation_a_toolbox_needs_no_filter_of_system_calls(list_toolboxes, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    settings = "toolboxes: [{shell: {backend: none}}]\n"
    shown = json.loads(list_toolboxes(settings, "shell", "--json").stdout)
    assert shown["state"] == "in the settings"


def test_what_a_toolbox_can_reach_is_shown(list_toolboxes, tmp_path):
    (tmp_path / "notes").mkdir()
    settings = (
        "toolboxes:\n  - shell: {roots: [notes], read_only: [/etc/hostname], network: true}\n"
        "  - files\n  - code: {roots: [.]}\n"
    )
    listed = {each["name"]: each for each in json.loads(list_toolboxes(settings, "--json").stdout)}
    assert listed["shell"]["reach"] == {
        "writes": [f"{tmp_path}/notes"],
        "reads": ["/etc/hostname"],
        "network": True,
        "programs": True,
        "backend": "auto",
        "store": False,
    }
    workspace = f"{tmp_path}/workspace (made when it is first used)"
    assert listed["files"]["reach"]["writes"] == [workspace]
    assert listed["code"]["reach"] is None
    assert "'.' holds, or would hold, the settings file" in listed["code"]["state"]
    shown = " ".join(list_toolboxes(settings, "shell").stdout.split())
    assert "network" in shown
    assert "runs programs in the sandbox (backend 'auto')" in shown
    assert not (tmp_path / "workspace").exists()
