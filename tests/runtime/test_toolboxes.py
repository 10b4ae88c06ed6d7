"""Toolboxes with settings of their own: checked with file and line, rebuilt when they change."""

import importlib
import json
import sys

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from leonidas_tools import ToolRuntime
from leonidas_tools.cli import config
from leonidas_tools.errors import ConfigurationError, RegistryError
from leonidas_tools.settings.json_schema import settings_schema
from leonidas_tools.settings.load import load

SHOP = '''
from pydantic import BaseModel, Field

from leonidas_tools import Toolbox, tool


class Place(BaseModel):
    city: str = "Porto"


class ShopSettings(BaseModel):
    currency: str = "EUR"
    most: int = Field(default=5, ge=1)
    place: Place = Place()
    token: str = Field(default="", max_length=10)


def make(settings):
    @tool(effect="read")
    def get_price(item: str) -> str:
        """Price of an item."""
        return f"{settings.most} {settings.currency} in {settings.place.city}"

    return [get_price]


TOOLBOX = Toolbox(summary="Prices.", settings=ShopSettings, make=make)
'''


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a writer of files into a folder that Python imports from."""
    monkeypatch.syspath_prepend(tmp_path)
    path = list(sys.path)

    def place(name, text):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        importlib.invalidate_caches()
        return target

    place("lt_shop.py", SHOP)
    yield place
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if str(vars(module).get("__file__") or "").startswith(str(tmp_path)):
            del sys.modules[name]


def check(*arguments):
    return CliRunner().invoke(config.commands(), ["check", *map(str, arguments)])


async def price(tools):
    return (await tools.execute("get_price", {"item": "tea"})).result


@pytest.mark.parametrize(
    ("toolboxes", "said"),
    [
        (["lt_shop"], "5 EUR in Porto"),
        ([{"lt_shop": {"currency": "GBP", "place": {"city": "York"}}}], "5 GBP in York"),
        ([{"lt_shop": None}], "5 EUR in Porto"),
        ([{"lt_shop": {}}], "5 EUR in Porto"),
    ],
)
async def test_a_toolbox_makes_its_tools_of_its_settings(place, toolboxes, said):
    assert await price(ToolRuntime(config={"toolboxes": toolboxes})) == said


MISTAKES = [
    (
        "  - lt_shop: {curency: GBP}",
        "0.lt_shop.curency: is not a setting; did you mean 'currency'?",
    ),
    ("  - lt_shop: {most: 0}", "0.lt_shop.most: 0 should be greater than or equal to 1"),
    ("  - lt_shop: {most: x}", "0.lt_shop.most: 'x' is not a whole number"),
    ("  - lt_shop: {place: {citty: X}}", "0.lt_shop.place.citty: is not a setting; did you mean"),
    ("  - lt_shop: {place: 3}", "0.lt_shop.place: 3 should be a mapping"),
    ("  - lt_shop: GBP", "0: the settings of 'lt_shop' should be a mapping"),
    (
        "  - lt_shop:\n    currency: GBP",
        "0: should be the name of a toolbox, or its name and below",
    ),
    ("  - {}", "0: should be the name of a toolbox"),
    ("  - 5", "0: "),
    ("  - lt_shop\n  - lt_shop: {most: 2}", "the toolbox 'lt_shop' is named twice: remove one"),
    ("  - demo: {sides: 3}", "0.demo: the toolbox 'demo' takes no settings; write only its name"),
    ("  - lt_shop: {token: '${LT_TOKEN}'}", "its value, which comes from the environment, "),
]


@pytest.mark.parametrize(("items", "said"), MISTAKES)
async def test_a_wrong_setting_of_a_toolbox_is_named_with_its_line(place, monkeypatch, items, said):
    monkeypatch.setenv("LT_TOKEN", "s3cr3t-4711-zebra")
    good = "version: 1\n\ntoolboxes: [lt_shop]\n"
    file = place("tools.yaml", good)
    async with ToolRuntime(config=file) as tools:
        file.write_text(f"version: 1\ntoolboxes:\n{items}\n")
        with pytest.raises(ConfigurationError) as refused:
            tools.settings.reload()
        assert await price(tools) == "5 EUR in Porto"
    with pytest.raises((ConfigurationError, RegistryError)) as raised:
        ToolRuntime(config=file)
    checked = check(file)
    assert checked.exit_code == 1
    line = 2 if "twice" in said else 3
    for told in (str(refused.value), str(raised.value), checked.stdout):
        assert told.startswith(f"{file}:{line}: ")
        assert said in told
        assert "zebra" not in told


async def test_every_wrong_setting_of_a_toolbox_is_reported(place):
    file = place("tools.yaml", "toolboxes:\n  - lt_shop:\n      most: 0\n      plase: x\n")
    found = json.loads(check(file, "--json").stdout)
    assert [(each["line"], each["key"]) for each in found] == [
        (3, "toolboxes.0.lt_shop.most"),
        (4, "toolboxes.0.lt_shop.plase"),
    ]


async def test_changed_settings_rebuild_the_tools_of_that_toolbox_alone(place):
    file = place("tools.yaml", "toolboxes: [demo, lt_shop]\n")
    async with ToolRuntime(config=file) as tools:
        dice = tools.registry["roll_dice"]
        file.write_text("toolboxes: [demo, {lt_shop: {most: 7, currency: GBP}}]\n")
        tools.settings.reload()
        assert await price(tools) == "7 GBP in Porto"
        file.write_text("toolboxes: [{lt_shop: {most: 8}}, demo]\n")
        tools.settings.reload()
        assert await price(tools) == "8 EUR in Porto"
        assert tools.registry["roll_dice"] is dice
        tools.settings.update({"toolboxes": ["demo"]})
        assert "get_price" not in tools.registry


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "def make(settings):\n    1 / 0\nTOOLBOX = Toolbox(summary='', make=make)",
            "ZeroDivision",
        ),
        ("TOOLBOX = Toolbox(summary='', make=lambda settings: [5])", "not a tool"),
        ("TOOLBOX = [5]", "TOOLBOX in 'lt_bad' is a list: make it a Toolbox"),
        ("TOOLBOX = Toolbox(summary='', make=None, settings=dict)", "pydantic.BaseModel"),
        (
            "TOOLBOX = Toolbox(summary='', make=lambda _: [get_price])",
            "A tool 'get_price' already exists",
        ),
    ],
)
async def test_a_toolbox_that_cannot_make_its_tools_changes_nothing_on_reload(place, change, says):
    place("lt_bad.py", f"from leonidas_tools import Toolbox\ndef get_price(): ...\n{change}\n")
    file = place("tools.yaml", "toolboxes: [lt_shop]\n")
    async with ToolRuntime(config=file) as tools:
        file.write_text("toolboxes: [{lt_shop: {most: 9}}, lt_bad]\n")
        with pytest.raises(ConfigurationError, match=says) as refused:
            tools.settings.reload()
        assert str(refused.value).startswith(f"{file}:1: toolboxes.1: ")
        assert await price(tools) == "5 EUR in Porto"


@pytest.mark.parametrize("target", ["lt_shop", "lt_shop:TOOLBOX"])
async def test_an_installed_package_brings_a_toolbox_with_settings(place, target):
    place("lt_dist-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: lt-dist\nVersion: 1.0\n")
    points = f"[leonidas_tools.toolboxes]\nshop = {target}\n"
    place("lt_dist-1.0.dist-info/entry_points.txt", points)
    tools = ToolRuntime(config={"toolboxes": [{"shop": {"most": 3}}]})
    assert await price(tools) == "3 EUR in Porto"
    with pytest.raises(RegistryError, match=r"toolboxes\.0\.shop\.mosst: is not a setting"):
        ToolRuntime(config={"toolboxes": [{"shop": {"mosst": 3}}]})


@pytest.mark.parametrize("tools", [{}, {"get_price": {"timeout": 3}}])
async def test_a_secret_in_the_settings_of_a_toolbox_is_disclosed_by_no_tool(
    place, monkeypatch, tools
):
    monkeypatch.setenv("SHOP_PLACE", "s3cr3t-4711-zebra")
    shop = {"place": {"city": "${SHOP_PLACE}"}, "token": "4712-lion"}
    told = []
    settings = {"toolboxes": [{"lt_shop": shop}], "tools": tools}
    async with ToolRuntime([tell_token], config=settings) as runtime:
        runtime.monitor.subscribe(lambda event: told.append(str(event.shown())))
        assert await price(runtime) == "5 EUR in ***"
        assert (await runtime.execute("tell_token")).result == "token ***"
    assert "zebra" not in str(told)


def tell_token() -> str:
    """Tell a secret."""
    return "token 4712-lion"


def test_a_toolbox_that_lacks_its_store_is_a_warning(place, caplog):
    file = place("tools.yaml", "toolboxes:\n  - demo\n  - notes\n")
    said = f"{file}:3: warning: toolboxes.1: the tools of 'notes' need the store"
    checked = check(file)
    assert checked.exit_code == 0
    assert said in checked.stdout
    ToolRuntime(config=file)
    assert said in caplog.text
    file.write_text("toolboxes: [demo, notes]\nstore: {enabled: true}\n")
    assert "warning" not in check(file).stdout.replace("0 warnings", "")


def test_settings_with_toolboxes_can_be_written_and_read_again():
    toolboxes = ["demo", {"lt_shop": {"most": 3}}]
    assert load({"toolboxes": toolboxes}).model_dump(mode="json")["toolboxes"] == toolboxes


@pytest.mark.parametrize(
    ("toolboxes", "valid"),
    [
        ("[demo, {files: {roots: [~/notes]}}]", True),
        ("[{shop_tools: {}}]", True),
        ("[{shop_tools: }]", False),
        ("[{a: {}, b: {}}]", False),
        ("[5]", False),
        ("demo", False),
    ],
)
def test_the_schema_of_the_file_accepts_toolboxes_with_settings(toolboxes, valid):
    validator = jsonschema.Draft202012Validator(settings_schema())
    assert validator.is_valid({"toolboxes": yaml.safe_load(toolboxes)}) is valid
