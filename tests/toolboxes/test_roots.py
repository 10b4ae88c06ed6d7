"""The folders of toolboxes: what they may not hold, how they lie in each other, and the default."""

import gc
import os
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, ToolRuntime
from leonidas_tools.approvals.request import Decision
from leonidas_tools.errors import ConfigurationError, ToolboxError
from leonidas_tools.files.roots import resolve_path


@pytest.fixture
def held(tmp_path, monkeypatch):
    """Return a folder that holds nothing yet; nothing else that rules the runtime is above it."""
    for name in ("held", "cwd", "settings"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("LEONIDAS_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "held"


def write(file, toolboxes, **more):
    file.write_text(yaml.safe_dump({"toolboxes": toolboxes, **more}))
    return file


def in_the_folder(held, monkeypatch):
    return held / "tools.yaml", {}


def far_below(held, monkeypatch):
    (held / "a" / "b").mkdir(parents=True)
    return held / "a" / "b" / "tools.yaml", {}


def by_a_link(held, monkeypatch):
    link = held.parent / "settings" / "tools.yaml"
    link.symlink_to(held / "tools.yaml")
    return link, {}


def as_a_link(held, monkeypatch):
    (held / "tools.yaml").symlink_to(held.parent / "settings" / "tools.yaml")
    return held / "tools.yaml", {}


def by_a_linked_folder(held, monkeypatch):
    (held / "there").symlink_to(held.parent / "settings")
    return held / "there" / "tools.yaml", {}


def for_the_next_start(held, monkeypatch):
    monkeypatch.chdir(held.parent)
    held.rename(held.parent / "config")
    held.symlink_to("config")
    return None, {}


def variables(held, monkeypatch):
    monkeypatch.chdir(held)
    return None, {}


def data(held, monkeypatch):
    monkeypatch.setenv("LEONIDAS_DATA_DIR", str(held / "not" / "there" / "yet"))
    return None, {"mcp_servers": {"x": {"url": "http://localhost:1"}}}


def used_data(held, monkeypatch):
    monkeypatch.setenv("LEONIDAS_DATA_DIR", str(held / "data"))
    (held / "data").mkdir()
    return None, {}


def pins(held, monkeypatch):
    (held.parent / "data").mkdir()
    (held.parent / "data" / "mcp").symlink_to(held)
    return None, {"mcp_servers": {"x": {"url": "http://localhost:1"}}}


def store(held, monkeypatch):
    return None, {"store": {"enabled": True, "url": str(held / "kept.db")}}


def server(held, monkeypatch):
    (held / "server.py").touch()
    return None, {"mcp_servers": {"x": {"command": "python", "args": [str(held / "server.py")]}}}


def modules(held, monkeypatch):
    monkeypatch.syspath_prepend(held / "lib")
    return None, {}


RULING = {
    "the settings file, '{held}/tools.yaml'": in_the_folder,
    "the settings file, '{held}/a/b/tools.yaml'": far_below,
    "the settings file, '{beside}/tools.yaml'": by_a_link,
    "the settings file, '{held}/tools.yaml', ": as_a_link,
    "the settings file, '{held}/there/tools.yaml'": by_a_linked_folder,
    "the settings file, '{above}/config/tools.yaml'": for_the_next_start,
    "the variables of `leonidas`, '{held}/.env'": variables,
    "the data directory, '{held}/not/there/yet'": data,
    "the data directory, '{held}/data'": used_data,
    "the pins of MCP servers, '{above}/data/mcp'": pins,
    "the store, '{held}/kept.db'": store,
    "the MCP server 'x', '{held}/server.py'": server,
    "Python's modules, '{held}/lib'": modules,
}


@pytest.mark.parametrize("said", RULING)
def test_a_root_that_holds_what_rules_is_refused(held, monkeypatch, said):
    beside = held.parent / "settings"
    file, more = RULING[said](held, monkeypatch)
    file = write(file or beside / "tools.yaml", [{"files": {"roots": [str(held)]}}], **more)
    with pytest.raises(ToolboxError) as refused:
        ToolRuntime(config=file)
    place, key, why = str(refused.value).split(": ", 2)
    lines = file.read_text().splitlines()
    assert place == f"{file}:{1 + next(n for n, line in enumerate(lines) if 'roots' in line)}"
    assert key == "toolboxes.0.files.roots"
    assert said.format(held=held, beside=beside, above=held.parent) in why
    assert "name a separate folder, such as './workspace'" in why


def test_a_root_with_a_toolbox_that_is_searched_there_is_refused(held, monkeypatch):
    monkeypatch.chdir(held)
    toolboxes = [{"files": {"roots": ["."]}}]
    ToolRuntime(config={"toolboxes": toolboxes})
    with pytest.raises(ToolboxError, match="the toolbox 'lt_roots_shop'"):
        ToolRuntime(config={"toolboxes": [*toolboxes, "lt_roots_shop"]})
    (held / ".env").touch()
    with pytest.raises(ToolboxError, match="the variables of `leonidas`"):
        ToolRuntime(config={"toolboxes": toolboxes})


def test_a_root_in_the_package_of_a_toolbox_is_refused(held):
    (held / "lt_roots_shop" / "data").mkdir(parents=True)
    (held / "lt_roots_shop" / "__init__.py").touch()
    roots = {"roots": [str(held / "lt_roots_shop" / "data")]}
    file = write(held / "tools.yaml", [{"files": roots}, "lt_roots_shop"])
    with pytest.raises(ToolboxError, match=r"lies in the toolbox 'lt_roots_shop', .*: name a"):
        ToolRuntime(config=file)


@pytest.mark.parametrize("setting", ["files.roots", "shell.roots", "code.roots", "memory.folders"])
def test_every_toolbox_refuses_the_folder_of_the_settings(held, setting):
    name, key = setting.split(".")
    file = write(held / "tools.yaml", [{name: {key: [str(held.parent)]}}])
    with pytest.raises(ToolboxError, match=f"toolboxes.0.{setting}: .* hold, the settings file"):
        ToolRuntime(config=file)


def test_a_folder_beside_what_rules_is_a_root(held):
    (held / "notes").mkdir()
    roots = {"roots": [str(held / "notes")]}
    write(held / "tools.yaml", [{"files": roots}, {"code": roots}])
    assert "read_file" in ToolRuntime(config=held / "tools.yaml").registry


async def test_an_edit_with_such_a_root_changes_nothing(held):
    notes = str(held / "notes")
    (held / "notes").mkdir()
    file = write(held / "tools.yaml", [{"files": {"roots": [notes]}}])
    async with ToolRuntime(config=file) as tools:
        write(file, [{"files": {"roots": [notes, str(held)]}}, "demo"], policies={"threads": 3})
        with pytest.raises(ConfigurationError, match=r"tools.yaml:\d+: toolboxes.0.files.roots: "):
            tools.settings.reload()
        write(
            file, [{"files": {"roots": [notes]}}], store={"enabled": True, "url": f"{notes}/s.db"}
        )
        with pytest.raises(ConfigurationError, match="would hold, the store"):
            tools.settings.reload()
        assert tools.settings.current.policies.threads == 40
        assert "roll_dice" not in tools.registry
        written = await tools.execute("write_file", {"path": "a.txt", "content": "a"})
    assert written.ok
    assert (held / "notes" / "a.txt").exists()


# --- the default ---------------------------------------------------------------------------------


async def test_the_workspace_beside_the_settings_is_made_when_first_used(held):
    pytest.importorskip("pyseccomp")
    shell = {"run_shell": {"requires_approval": False}}
    toolboxes = ["files", {"shell": {"processes": "off"}}, "code"]
    file = write(held / "tools.yaml", toolboxes, tools=shell)
    workspace = held / "workspace"
    async with AdvancedToolProcessor(config=file) as tools:
        assert not workspace.exists()
        assert (await tools.execute("write_file", {"path": "a.txt", "content": "a"})).ok
        assert workspace.stat().st_mode & 0o777 == 0o700
        ran = await tools.execute("run_shell", {"command": "cat a.txt"})
    assert ran.reason_code == "no_sandbox" or ran.result["stdout"] == "a"
    assert {each.name for each in held.iterdir()} == {"tools.yaml", "workspace"}


async def test_without_a_settings_file_it_is_in_the_working_directory(held):
    tools = ToolRuntime(config={"toolboxes": ["files"]})
    assert (await tools.execute("list_directory")).ok
    assert (held.parent / "cwd" / "workspace").is_dir()


async def test_a_link_that_is_put_in_its_place_is_not_followed(held):
    tools = ToolRuntime(config=write(held / "tools.yaml", ["files"]))
    (held / "workspace").symlink_to(held.parent)
    written = await tools.execute("write_file", {"path": "a.txt", "content": "a"})
    assert written.status == "not_found"
    assert not (held.parent / "a.txt").exists()


# --- one in the other ----------------------------------------------------------------------------


async def test_a_root_in_a_root_stays_what_it_was(held):
    notes = held / "notes"
    notes.mkdir()
    toolboxes = [{"code": {"roots": [str(held)]}}, {"files": {"roots": [str(notes)]}}]
    tools = ToolRuntime(config={"toolboxes": toolboxes})
    notes.rename(held / "old")
    notes.symlink_to(held.parent / "settings")
    assert (await tools.execute("write_file", {"path": "a.txt", "content": "a"})).ok
    assert (held / "old" / "a.txt").exists()
    with pytest.raises(ToolboxError, match="and, by a link, out of it again"):
        ToolRuntime(config={"toolboxes": toolboxes})
    with pytest.raises(ToolboxError, match="and, by a link, out of it again"):
        ToolRuntime(config={"toolboxes": toolboxes[::-1]})
    notes.unlink()
    notes.symlink_to("old")
    assert "read_file" in ToolRuntime(config={"toolboxes": toolboxes}).registry


def test_a_root_is_closed_with_its_toolbox(held):
    def count():
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    watched = ToolRuntime(config={"toolboxes": []})
    before = count()
    watched.settings.update({"toolboxes": [{"files": {"roots": [str(held)]}}]})
    watched._follow()
    assert count() == before + 1
    watched.settings.update({"toolboxes": []})
    watched._follow()
    assert count() == before


NAMES = st.sampled_from(["a", "b", "c", "d"])
TARGETS = st.lists(st.sampled_from(["a", "b", "c", "d", "..", ".", ""]), min_size=1, max_size=4)


@given(links=st.dictionaries(NAMES, TARGETS), path=TARGETS, start=st.booleans())
def test_a_way_leads_where_the_path_leads(links, path, start):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for link, target in links.items():
            (folder / link).symlink_to("/".join([str(folder), *target] if start else target) or ".")
        for each in {"a", "b", "c", "d"} - links.keys():
            (folder / each / "c").mkdir(parents=True)
        whole = os.path.join(folder, *path)  # noqa: PTH118 - `Path` drops parts
        try:
            found = resolve_path(whole)
        except OSError:
            assert not os.path.exists(whole)  # noqa: PTH110
            return
        if found.exists:
            assert str(found.path) == os.path.realpath(whole, strict=True)
            status = os.stat(whole)  # noqa: PTH116
            assert found.ancestors[-1] == (status.st_dev, status.st_ino)
            assert len(found.ancestors) == len(found.path.parts)
        else:
            assert not os.path.exists(whole)  # noqa: PTH110


# --- files that make programs run ----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ask", "autonomous"])
@pytest.mark.parametrize(
    ("path", "asks"),
    [
        (".git/hooks/pre-commit", True),
        ("a/../.GIT/config", True),
        ("sub/.envrc", True),
        (".vscode/tasks.json", True),
        ("notes/git.txt", False),
        (".gitignore", False),
    ],
)
async def test_files_that_make_programs_run_are_asked_about(held, mode, path, asks):
    asked = []

    async def refuse(request):
        asked.append(request.rule)
        return Decision.deny("no")

    config = {"toolboxes": [{"files": {"roots": [str(held)]}}], "policies": {"mode": mode}}
    tools = AdvancedToolProcessor(config=config, approval=refuse)
    (held / ".git").mkdir()
    result = await tools.execute("write_file", {"path": path, "content": "x"})
    assert (result.status, asked) == (("denied", ["program_files"]) if asks else ("ok", []))


async def test_a_link_to_such_a_file_is_refused(held):
    (held / ".git" / "hooks").mkdir(parents=True)
    (held / "innocent").symlink_to(".git/hooks")
    tools = ToolRuntime(config={"toolboxes": [{"files": {"roots": [str(held)]}}]})
    written = await tools.execute("write_file", {"path": "innocent/x", "content": "x"})
    assert written.status == "denied"
    assert not (held / ".git" / "hooks" / "x").exists()
