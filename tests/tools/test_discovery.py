"""Tools are found in modules, packages and entry points."""

import importlib
import sys

import pytest

from leonidas_tools import AdvancedToolProcessor
from leonidas_tools.errors import RegistryError
from leonidas_tools.tools.discovery import discover, find_toolbox
from tests.modules import forget_modules_in

TOOL = "from leonidas_tools import tool\n@tool\ndef {name}() -> str:\n    return {name!r}\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes modules below a directory that Python imports from, and forgets them afterwards."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(**files):
        for path, text in files.items():
            file = tmp_path / path.replace("__slash__", "/")
            file = file.with_name(f"{file.name}.py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        importlib.invalidate_caches()

    yield write
    forget_modules_in(tmp_path)


def package(write, name, **modules):
    files = {f"{name}__slash__{key}": text for key, text in modules.items()}
    write(**{f"{name}__slash____init__": "", **files})


def names(tools):
    return [one.name for one in tools]


def test_the_tools_of_a_module_are_those_made_in_it(write):
    write(
        lt_one=TOOL.format(name="one") + "def plain(): ...\n",
        lt_two="from lt_one import one\nagain = one\n" + TOOL.format(name="two"),
    )
    assert names(discover("lt_one")) == ["one"]
    assert names(discover("lt_two")) == ["two"]


def test_a_list_of_tools_says_which_and_may_hold_functions(write):
    write(
        lt_listed=TOOL.format(name="hidden")
        + TOOL.format(name="shown")
        + "def plain() -> None: ...\nTOOLS = [shown, plain]\n"
    )
    assert names(discover("lt_listed")) == ["shown", "plain"]


def test_a_module_object_does_as_well():
    from leonidas_tools.toolboxes import demo

    assert discover(demo) == discover("leonidas_tools.toolboxes.demo")


def test_a_package_is_gone_through_to_its_depths(write):
    package(write, "lt_pack", a=TOOL.format(name="a"), __main__="raise RuntimeError('run')")
    write(
        lt_pack__slash__deep__slash____init__=TOOL.format(name="deep"),
        lt_pack__slash__deep__slash__er=TOOL.format(name="deeper"),
    )
    assert sorted(names(discover("lt_pack"))) == ["a", "deep", "deeper"]


def test_a_tool_that_is_listed_twice_is_found_once(write):
    package(write, "lt_twice", a=TOOL.format(name="a"))
    write(lt_twice__slash__b="from lt_twice.a import a\nTOOLS = [a]\n")
    assert names(discover("lt_twice")) == ["a"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import no_such_module_x", "no_such_module_x"),
        ("def f(:", "syntax"),
        ("raise ValueError('x')", "ValueError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_reason(write, text, why):
    write(lt_broken=text)
    with pytest.raises(RegistryError, match=f"'lt_broken'.*{why}"):
        discover("lt_broken")


def test_a_broken_module_deep_in_a_package_is_named(write):
    package(write, "lt_half", good=TOOL.format(name="good"), bad="import no_such_module_x")
    with pytest.raises(RegistryError, match=r"'lt_half\.bad'"):
        discover("lt_half")


def test_a_broken_package_deep_in_a_package_is_named(write):
    package(write, "lt_nest", good=TOOL.format(name="good"))
    write(lt_nest__slash__bad__slash____init__="raise ValueError('x')")
    with pytest.raises(RegistryError, match=r"'lt_nest\.bad'"):
        discover("lt_nest")


def test_a_module_that_does_not_exist_is_named():
    with pytest.raises(RegistryError, match=r"'no\.such\.module'"):
        discover("no.such.module")


def test_what_is_listed_and_no_tool_is_refused(write):
    write(lt_wrong="TOOLS = [5]")
    with pytest.raises(RegistryError, match="not a tool"):
        discover("lt_wrong")


# --- entry points ----------------------------------------------------------------------------


@pytest.fixture
def install(tmp_path, write):
    """Installs a distribution with entry points, as an installer lays it out."""

    def install(**points):
        info = tmp_path / "lt_dist-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lt-dist\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {target}" for name, target in points.items())
        (info / "entry_points.txt").write_text(f"[leonidas_tools.toolboxes]\n{lines}\n")
        (info / "RECORD").write_text("")
        importlib.invalidate_caches()

    return install


INSTALLED = {"pack": ["a", "b"], "tool": ["two"], "function": ["plain"], "some": ["one", "plain"]}


def test_installed_packages_offer_modules_tools_functions_and_lists(write, install):
    package(write, "lt_pack", a=TOOL.format(name="a"), b=TOOL.format(name="b"))
    write(
        lt_things=TOOL.format(name="one")
        + TOOL.format(name="two")
        + "def plain() -> None: ...\nboth = (one, plain)\n"
    )
    install(pack="lt_pack", tool="lt_things:two", function="lt_things:plain", some="lt_things:both")
    assert {name: sorted(loaded({"toolboxes": [name]})) for name in INSTALLED} == INSTALLED


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("no_such_module_x", "no_such_module_x"),
        ("lt_bad", "ValueError"),
        ("lt_fine:missing", "missing"),
        ("lt_fine:number", "not a tool"),
    ],
)
def test_an_entry_point_that_cannot_be_loaded_is_an_error(write, install, target, why):
    write(lt_bad="raise ValueError('x')", lt_fine="number = 5")
    install(faulty=target)
    with pytest.raises(RegistryError, match=why):
        find_toolbox("faulty")


# --- files beside the settings ---------------------------------------------------------------


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a writer of files into a project; the imports of the test are undone."""
    path = list(sys.path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    def place(file, text):
        target = tmp_path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        importlib.invalidate_caches()
        return target

    yield place
    assert sys.path == path
    forget_modules_in(tmp_path)


def loaded(settings):
    return {
        tool.name for tool in AdvancedToolProcessor(config=settings, builtin_tools=False).registry
    }


def test_a_toolbox_is_found_beside_the_settings(place):
    place("shop_tools.py", TOOL.format(name="price"))
    settings = place("tools.yaml", "version: 1\ntoolboxes: [shop_tools]\n")
    assert loaded(settings) == {"price"}


def test_nothing_else_is_imported_from_beside_the_settings(place):
    place("shop_tools.py", TOOL.format(name="price"))
    place("elsewhere/here_tools.py", TOOL.format(name="here"))
    settings = place("tools.yaml", "version: 1\ntoolboxes: [shop_tools, here_tools]\n")
    assert loaded(settings) == {"price", "here"}
    for file in ("lt_planted.py", "elsewhere/lt_planted.py", "lt_package/__init__.py"):
        place(file, "raise SystemExit\n")
    for name in ("lt_planted", "lt_package"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_an_import_of_a_neighbour_is_refused_with_the_remedy(place):
    place("shop_prices.py", "PRICE = 5\n")
    place("shop_tools.py", "from shop_prices import PRICE\n" + TOOL.format(name="price"))
    settings = place("tools.yaml", "version: 1\ntoolboxes: [shop_tools]\n")
    with pytest.raises(RegistryError) as raised:
        AdvancedToolProcessor(config=settings)
    assert str(raised.value).endswith(
        "The toolbox 'shop_tools' imports 'shop_prices', which lies beside it, and only what the "
        "settings name is imported from there: make a package of them, such as "
        "shop_tools/__init__.py and shop_tools/shop_prices.py, and write 'from . import "
        "shop_prices'"
    )


def test_the_modules_of_a_package_import_each_other(place):
    place("shop/__init__.py", "from .prices import PRICE\n" + TOOL.format(name="price"))
    place("shop/prices.py", "PRICE = 5\n")
    settings = place("tools.yaml", "version: 1\ntoolboxes: [shop]\n")
    assert loaded(settings) == {"price"}


async def test_a_worker_process_finds_a_toolbox_beside_the_settings(place):
    place(
        "busy_tools.py",
        "from leonidas_tools import tool\n"
        "@tool(cpu_bound=True, effect='read')\n"
        "def double(number: int) -> int:\n"
        "    return number * 2\n",
    )
    settings = place("tools.yaml", "version: 1\ntoolboxes: [busy_tools]\n")
    async with AdvancedToolProcessor(config=settings) as tools:
        assert (await tools.execute("double", {"number": 4})).result == 8


def test_a_toolbox_is_found_in_the_working_directory(place):
    place("elsewhere/here_tools.py", TOOL.format(name="here"))
    assert loaded({"toolboxes": ["here_tools"]}) == {"here"}


def test_the_folder_of_the_settings_comes_before_the_working_directory(place):
    place("both_tools.py", TOOL.format(name="beside"))
    place("elsewhere/both_tools.py", TOOL.format(name="here"))
    settings = place("tools.yaml", "version: 1\ntoolboxes: [both_tools]\n")
    assert loaded(settings) == {"beside"}


def test_a_module_of_a_package_beside_the_settings_is_found(place):
    place("shop/__init__.py", "")
    place("shop/orders.py", TOOL.format(name="order"))
    settings = place("tools.yaml", "version: 1\ntoolboxes: [shop.orders]\n")
    assert loaded(settings) == {"order"}


def test_a_toolbox_that_ships_is_named_by_one_word():
    assert "roll_dice" in loaded({"toolboxes": ["demo"]})


def test_a_toolbox_is_found_by_the_name_of_an_entry_point(write, install):
    write(lt_shop=TOOL.format(name="price"))
    install(shop="lt_shop")
    assert loaded({"toolboxes": ["shop"]}) == {"price"}


def test_a_missing_toolbox_says_where_it_was_looked_for_and_where_it_is_named(place, tmp_path):
    settings = place("tools.yaml", "version: 1\ntoolboxes:\n  - demo\n  - shop_tools\n")
    with pytest.raises(RegistryError) as raised:
        AdvancedToolProcessor(config=settings)
    message = str(raised.value)
    assert message.startswith(
        f"{settings}:4: toolboxes.1: There is no toolbox 'shop_tools'. Looked in: "
    )
    assert f"{tmp_path}, {tmp_path / 'elsewhere'}; " in message


def test_a_file_with_the_name_of_an_imported_module_is_refused(place):
    place("json.py", TOOL.format(name="one"))
    settings = place("tools.yaml", "version: 1\ntoolboxes: [json]\n")
    with pytest.raises(RegistryError, match="imported already: rename the file"):
        AdvancedToolProcessor(config=settings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nx / 0\n", r"ZeroDivisionError: division by zero \(.*shop_tools\.py:2\)"),
        (
            "from leonidas_tools import tool\n@tool(effekt='read')\ndef f() -> None: ...\n",
            r"effekt.*shop_tools\.py:2\)",
        ),
        ("from . import prices\n", r"RuntimeError: no prices \(.*prices\.py:1\)"),
        ("def f(:\n", r"SyntaxError.*shop_tools\.py, line 1"),
        ("raise ValueError('x' * 9999)\n", r"ValueError: x+…"),
    ],
)
def test_what_goes_wrong_in_a_toolbox_is_shown_with_file_and_line(place, text, said):
    place("shop/__init__.py", "")
    place("shop/prices.py", "raise RuntimeError('no prices')\n")
    place("shop/shop_tools.py", text)
    settings = place("tools.yaml", "version: 1\ntoolboxes: [shop.shop_tools]\n")
    with pytest.raises(RegistryError, match=said):
        AdvancedToolProcessor(config=settings)


# --- objects and classes ---------------------------------------------------------------------

SHOP = """
from leonidas_tools import tool
class Shop:
    price = 5

    @property
    def broken(self):
        raise RuntimeError("a property runs")

    @tool(effect="read")
    def look(self) -> int:
        \"\"\"Look at the price.\"\"\"
        return self.price
"""


async def test_the_tools_of_an_object_are_found_and_bound_to_it(place):
    place("elsewhere/lt_object.py", SHOP + "shop = Shop()\nshop.price = 7\n")
    tools = AdvancedToolProcessor(config={"toolboxes": ["lt_object"]})
    assert (await tools.execute("look")).result == 7


def test_a_class_whose_tools_have_no_object_is_named_in_a_warning(place, caplog):
    place("elsewhere/lt_class.py", SHOP + TOOL.format(name="other"))
    assert loaded({"toolboxes": ["lt_class"]}) == {"other"}
    assert "class 'Shop' in the toolbox 'lt_class' are not offered (look)" in caplog.text


def test_a_toolbox_without_tools_is_named_in_a_warning(place, caplog):
    place("elsewhere/lt_empty.py", "def plain() -> None: ...\n")
    assert loaded({"toolboxes": ["lt_empty"]}) == set()
    assert "The toolbox 'lt_empty' has no tools: decorate 'plain' with @tool" in caplog.text
