"""Tools are found in modules, packages and entry points."""

import importlib
import sys

import pytest

from leonidas_tools.discovery import discover, discover_entry_points
from leonidas_tools.errors import RegistryError

TOOL = "from leonidas_tools import tool\n@tool\ndef {name}() -> str:\n    return {name!r}\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes modules below a directory that Python imports from, and forgets them afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(**files):
        for path, text in files.items():
            file = tmp_path / path.replace("__slash__", "/")
            file = file.with_name(f"{file.name}.py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        importlib.invalidate_caches()

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


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


def test_installed_packages_offer_modules_tools_functions_and_lists(write, install):
    package(write, "lt_pack", a=TOOL.format(name="a"), b=TOOL.format(name="b"))
    write(
        lt_things=TOOL.format(name="one")
        + TOOL.format(name="two")
        + "def plain() -> None: ...\nboth = (one, plain)\n"
    )
    install(pack="lt_pack", tool="lt_things:two", function="lt_things:plain", some="lt_things:both")
    assert sorted(names(discover_entry_points())) == ["a", "b", "one", "plain", "plain", "two"]
    assert discover_entry_points("another.group") == []


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
        discover_entry_points()
