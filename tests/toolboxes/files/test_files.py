"""The toolbox `files`: what it answers, and that nothing outside the roots is read or written."""

import asyncio
import ctypes
import json
import os
import random
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolSession
from leonidas_tools.calls.events import EventKind
from leonidas_tools.errors import ToolboxError
from leonidas_tools.files import beneath
from leonidas_tools.toolboxes.files.search import Search

SECRET = "the secret outside"


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    return root


@pytest.fixture
def make(root, tmp_path):
    def made(**settings):
        given = json.dumps({"roots": [str(root)], **settings})
        (tmp_path / "tools.yaml").write_text(f"toolboxes: [{{files: {given}}}]\n")
        return AdvancedToolProcessor(config=tmp_path / "tools.yaml")

    return made


@pytest.fixture
def tools(make):
    return make()


@pytest.fixture(params=["openat2", "walking"])
def opening(request, monkeypatch):
    """Both ways of opening beneath a folder."""
    if request.param == "walking":
        monkeypatch.setattr(beneath, "_has_openat2", lambda: False)
    elif not beneath._has_openat2():
        pytest.skip("this kernel has no openat2")
    return request.param


@pytest.fixture(params=["ripgrep", "Python"])
def searching(request, monkeypatch):
    """Both ways of searching."""
    if request.param == "Python":
        monkeypatch.setenv("PATH", "/nonexistent")
    return request.param


async def said(tools, name, **arguments):
    result = await tools.execute(name, arguments, session=ToolSession("ana"))
    return result.to_response()


def end_of_cancelled(tools):
    """Set once a cancelled call has ended, and what it did is undone."""
    ended = asyncio.Event()
    tools.monitor.subscribe(
        lambda e: ended.set() if e.kind is EventKind.CANCEL and e.result is not None else None
    )
    return ended


def everything(folder):
    """All names below a folder, with what is in the files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


# --- reading -------------------------------------------------------------------------------------


async def test_a_file_is_read_whole_and_by_lines(tools, root):
    (root / "a.txt").write_text("one\ntwo\r\nthree\n")
    whole = await said(tools, "read_file", path="a.txt")
    assert whole["result"] == {
        "path": "a.txt",
        "text": "one\ntwo\nthree",
        "first_line": 1,
        "last_line": 3,
        "lines": 3,
        "encoding": "utf-8",
    }
    assert whole["speech"] == "a.txt has 3 lines."
    some = await said(tools, "read_file", path=str(root / "a.txt"), first_line=2, last_line=9)
    assert (some["result"]["text"], some["result"]["last_line"]) == ("two\nthree", 3)
    assert some["speech"] == "I have read lines 2 to 3 of a.txt."
    far = await said(tools, "read_file", path="a.txt", first_line=4)
    assert (far["status"], far["reason_code"]) == ("invalid_argument", "no_such_line")


async def test_no_more_lines_are_read_than_the_settings_say(make, root):
    (root / "a.txt").write_text("line\n" * 50)
    read = await said(make(max_lines=10), "read_file", path="a.txt")
    assert (read["result"]["last_line"], read["result"]["lines"]) == (10, 50)


ENCODED = [
    ("olá, 世界".encode(), None, "utf-8"),
    ("olá".encode("utf-8-sig"), None, "utf-8-sig"),
    ("olá, 世界".encode("utf-16"), None, "utf-16"),
    ("olá, 世界".encode("utf-32"), None, "utf-32"),
    ("olá".encode("cp1252"), None, "cp1252"),
    ("世界".encode("gb18030"), "gb18030", "gb18030"),
    (b"", None, "utf-8"),
]


@pytest.mark.parametrize(("data", "named", "encoding"), ENCODED, ids=[e[2] for e in ENCODED])
async def test_a_text_is_read_in_its_encoding(tools, root, data, named, encoding):
    (root / "a.txt").write_bytes(data)
    arguments = {"path": "a.txt"} | ({"encoding": named} if named else {})
    read = (await said(tools, "read_file", **arguments))["result"]
    assert (read["text"], read["encoding"]) == (data.decode(encoding), encoding)


def fifo(root):
    os.mkfifo(root / "it")


def listening(root):
    with socket.socket(socket.AF_UNIX) as one:
        handle = os.open(root, os.O_RDONLY)
        one.bind(f"/proc/self/fd/{handle}/it")  # a longer path does not fit into an address
        os.close(handle)


def sparse(root):
    with (root / "it").open("wb") as file:
        file.truncate(10 << 30)


def nothing(root):
    pass


REFUSED = {
    "missing": (nothing, "it", "not_found", "no_such_file"),
    "below a file": (lambda r: (r / "f").write_text(""), "f/it", "not_found", "not_a_directory"),
    "directory": (lambda r: (r / "it").mkdir(), "it", "failed", "is_a_directory"),
    "FIFO": (fifo, "it", "failed", "not_a_file"),
    "socket": (listening, "it", "failed", "not_a_file"),
    "sparse 10 GB": (sparse, "it", "limited", "file_too_big"),
    "binary": (lambda r: (r / "it").write_bytes(b"a\0b"), "it", "failed", "binary_file"),
    "long name": (nothing, "x" * 300, "invalid_argument", "name_too_long"),
    "NUL in the name": (nothing, "a\0b", "invalid_argument", "no_such_name"),
    "device": (nothing, "/dev/zero", "denied", "outside_roots"),
    "process": (nothing, "/proc/self/environ", "denied", "outside_roots"),
    "absolute": (nothing, "/etc/passwd", "denied", "outside_roots"),
    "parent": (nothing, "../outside/secret.txt", "denied", "outside_roots"),
    "parent in the middle": (nothing, "x/../../outside/secret.txt", "denied", "outside_roots"),
    "absolute, with parent": (nothing, "{root}/../outside/secret.txt", "denied", "outside_roots"),
    "beside the root": (nothing, "{root}side/secret.txt", "denied", "outside_roots"),
    "home": (nothing, "~root/.profile", "denied", "outside_roots"),
    "link": (
        lambda r: (r / "it").symlink_to("../outside/secret.txt"), "it", "denied", "outside_roots",
    ),
    "absolute link": (
        lambda r: (r / "it").symlink_to("/etc/passwd"), "it", "denied", "outside_roots",
    ),
    "linked folder": (
        lambda r: (r / "it").symlink_to(r.parent / "outside"),
        "it/secret.txt", "denied", "outside_roots",
    ),
    "link to a process": (
        lambda r: (r / "it").symlink_to("/proc/self/environ"), "it", "denied", "outside_roots",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_what_cannot_be_read_is_named_as_such(make, root, opening, name):
    prepare, path, status, reason = REFUSED[name]
    (root / "x").mkdir()
    prepare(root)
    read = await said(make(), "read_file", path=path.replace("{root}", str(root)))
    assert (read["status"], read["reason_code"]) == (status, reason)
    assert SECRET not in str(read)


async def test_devices_and_files_of_the_kernel_are_refused_also_in_a_root(make):
    tools = make(roots=["/proc", "/dev", "/sys"])
    for path in ("/dev/zero", "/proc/self/environ", "/proc/kmsg", "/sys/kernel/notes"):
        read = await said(tools, "read_file", path=path)
        assert read["reason_code"] in ("not_a_file", "no_such_file"), path


async def test_a_link_that_loops_is_refused(tools, root, opening):
    (root / "it").symlink_to("it")
    assert (await said(tools, "read_file", path="it"))["status"] == "denied"


async def test_a_file_without_permission_is_named_as_such(tools, root, permissions_bind):
    (root / "a.txt").write_text("mine")
    (root / "a.txt").chmod(0)
    assert (await said(tools, "read_file", path="a.txt"))["reason_code"] == "no_permission"


async def test_a_file_that_changes_while_it_is_read_is_reported_as_changing(
    tools, root, monkeypatch
):
    file = root / "a.txt"
    file.write_text("0")
    real, count = os.pread, [0]

    def reading(*arguments):
        data = real(*arguments)
        count[0] += 1
        file.write_text("x" * (count[0] + 1))
        return data

    monkeypatch.setattr(os, "pread", reading)
    read = await said(tools, "read_file", path="a.txt")
    assert read["result"]["is_changing"] is True


# --- races ---------------------------------------------------------------------------------------


async def swapped(root, calls):
    """Run calls while a folder is swapped for a link to the outside, as fast as can be."""
    (root / "it").mkdir()
    (root / "it" / "secret.txt").write_text("inside")
    (root / "link").symlink_to(root.parent / "outside")
    exchange = ctypes.CDLL(None).renameat2
    one, other = os.fsencode(root / "it"), os.fsencode(root / "link")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            assert exchange(-100, one, -100, other, 2) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        return await calls()
    finally:
        stop.set()
        thread.join()


async def test_nothing_outside_is_read_while_a_folder_is_swapped_for_a_link(tools, root, opening):
    async def calls():
        return [await said(tools, "read_file", path="it/secret.txt") for _ in range(300)]

    answers = await swapped(root, calls)
    assert SECRET not in str(answers)


async def test_nothing_outside_is_written_while_a_folder_is_swapped_for_a_link(
    tools, root, opening
):
    before = everything(root.parent / "outside")

    async def calls():
        for number in range(300):
            await said(tools, "write_file", path="it/secret.txt", content=f"written {number}")

    await swapped(root, calls)
    assert everything(root.parent / "outside") == before


async def test_nothing_outside_is_found_while_a_folder_is_swapped_for_a_link(tools, root):
    async def calls():
        return [await said(tools, "search_in_files", pattern="secret|inside") for _ in range(30)]

    assert SECRET not in str(await swapped(root, calls))


# --- writing -------------------------------------------------------------------------------------


async def test_a_file_is_written_with_its_folders_and_replaced(tools, root, opening):
    made = await said(tools, "write_file", path="a/b/c.txt", content="olá")
    assert made["result"] == {"path": "a/b/c.txt", "bytes": 4, "created": True}
    assert made["speech"] == "I have written the new file c.txt."
    (root / "a/b/c.txt").chmod(0o640)
    again = await said(tools, "write_file", path="a/b/c.txt", content="new")
    assert again["speech"] == "I have replaced c.txt."
    assert everything(root) == {"a": None, "a/b": None, "a/b/c.txt": b"new"}
    assert (root / "a/b/c.txt").stat().st_mode & 0o777 == 0o640
    kept = await said(tools, "write_file", path="a/b/c.txt", content="x", overwrite=False)
    assert kept["reason_code"] == "file_exists"
    assert (root / "a/b/c.txt").read_text() == "new"


WRITES = ["../outside/new.txt", "link/secret.txt", "file_link", "/etc/new.txt", "deep/../../x"]


@pytest.mark.parametrize("path", WRITES)
async def test_nothing_is_written_outside_the_roots(tools, root, opening, path):
    (root / "link").symlink_to("../outside")
    (root / "file_link").symlink_to("../outside/secret.txt")
    before = everything(root.parent)
    written = await said(tools, "write_file", path=path, content="evil")
    assert written["status"] in ("denied", "failed")
    assert written["reason_code"] in ("outside_roots", "not_a_file")
    assert {k: v for k, v in everything(root.parent).items() if k != "root/deep"} == before


async def test_a_root_that_may_not_be_written_has_no_tool_that_writes(make):
    tools = make(writable=False)
    assert (await said(tools, "write_file", path="a", content=""))["status"] == "not_found"


async def test_what_was_there_stays_where_there_is_no_space(tools, root):
    (root / "a.txt").write_text("before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        full = await said(tools, "write_file", path="a.txt", content="x" * 10_000)
        deep = await said(tools, "write_file", path="n/e/w.txt", content="x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (full["reason_code"], deep["reason_code"]) == ("no_space", "no_space")
    assert everything(root) == {"a.txt": b"before"}


async def test_a_file_that_is_too_big_is_not_written(make, root):
    big = await said(make(max_file_kilobytes=1), "write_file", path="n/a", content="x" * 1025)
    assert big["reason_code"] == "file_too_big"
    assert everything(root) == {}


async def test_a_file_that_is_too_big_to_be_put_back_is_not_replaced(make, root):
    with (root / "a.txt").open("wb") as file:
        file.truncate(10_000_000_000)
    refused = await said(make(), "write_file", path="a.txt", content="new")
    assert (refused["status"], refused["reason_code"]) == ("limited", "file_too_big")
    assert (root / "a.txt").stat().st_size == 10_000_000_000


async def test_an_edit_that_makes_a_file_too_big_is_refused_before_the_text_is_made(tools, root):
    (root / "a.txt").write_text("a" * 100_000)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, limits[1]))
    edit = {"old_text": "a", "new_text": "b" * 400_000, "replace_all": True}
    try:
        big = await said(tools, "edit_file", path="a.txt", **edit)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert big["reason_code"] == "file_too_big"
    assert everything(root) == {"a.txt": b"a" * 100_000}


@pytest.mark.parametrize(
    "encoding", ["punycode", "Puny_Code", "idna", "undefined", "a\0", "\ud800"]
)
async def test_an_encoding_that_is_none_of_texts_is_refused(tools, root, encoding):
    (root / "a.txt").write_text("xn--a")
    refused = await said(tools, "read_file", path="a.txt", encoding=encoding)
    assert refused["reason_code"] == "unknown_encoding"


async def test_the_event_loop_gets_its_turn_between_the_files_of_matches(tools, root, monkeypatch):
    for number in range(5):
        (root / f"{number}.txt").write_text("x" + "\n" * 100)
    search = sys.modules["leonidas_tools.toolboxes.files.search"]
    turns, at, real = 0, [], search._lines

    async def turning():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    monkeypatch.setattr(search, "_lines", lambda *each: at.append(turns) or real(*each))
    task = asyncio.create_task(turning())
    found = await said(tools, "search_in_files", pattern="x")
    task.cancel()
    assert len(found["result"]["matches"]) == 5
    assert len(set(at)) == 5


@pytest.mark.parametrize("before", [None, b"before"])
async def test_a_cancelled_write_leaves_what_was_there_before(tools, root, monkeypatch, before):
    if before is not None:
        (root / "n").mkdir()
        (root / "n" / "a.txt").write_bytes(before)
    reached, go = threading.Event(), threading.Event()
    real = os.rename

    def renaming(*arguments, **more):
        real(*arguments, **more)
        reached.set()
        go.wait()

    monkeypatch.setattr(os, "rename", renaming)
    arguments = {"path": "n/a.txt", "content": "after"}
    ended = end_of_cancelled(tools)
    async with tools:
        call = asyncio.ensure_future(
            tools.execute("write_file", arguments, session=ToolSession("ana"))
        )
        await asyncio.to_thread(reached.wait)
        assert (root / "n/a.txt").read_text() == "after"
        call.cancel()
        await asyncio.wait([call])
        monkeypatch.setattr(os, "rename", real)
        go.set()
        await ended.wait()
    assert everything(root) == ({} if before is None else {"n": None, "n/a.txt": before})


async def test_an_edit_replaces_a_text_that_is_there_once(tools, root):
    (root / "a.txt").write_bytes("um\r\ndois\r\ndois é\r\n".encode("cp1252"))
    once = await said(tools, "edit_file", path="a.txt", old_text="um\ndois", new_text="1\n2")
    assert once["speech"] == "I have changed a.txt."
    assert (root / "a.txt").read_bytes() == "1\r\n2\r\ndois é\r\n".encode("cp1252")
    missing = await said(tools, "edit_file", path="a.txt", old_text="três", new_text="3")
    assert missing["reason_code"] == "text_not_there"
    (root / "b.txt").write_text("a a")
    twice = await said(tools, "edit_file", path="b.txt", old_text="a", new_text="b")
    assert twice["reason_code"] == "text_more_than_once"
    every = await said(
        tools, "edit_file", path="b.txt", old_text="a", new_text="b", replace_all=True
    )
    assert every["speech"] == "I have changed b.txt in 2 places."
    gone = await said(tools, "edit_file", path="c.txt", old_text="a", new_text="b")
    assert gone["reason_code"] == "no_such_file"


async def test_an_edit_loses_no_change_of_somebody_else(tools, root, monkeypatch):
    file = root / "a.txt"
    file.write_text("one")
    real = beneath.make_folders

    def meanwhile(*arguments):
        file.write_text("one, and more")
        return real(*arguments)

    monkeypatch.setattr("leonidas_tools.toolboxes.files.make_folders", meanwhile)
    edit = await said(tools, "edit_file", path="a.txt", old_text="one", new_text="two")
    assert edit["reason_code"] == "file_changed"
    assert file.read_text() == "one, and more"


# --- listing and searching -----------------------------------------------------------------------


async def test_a_folder_is_listed_without_following_links(tools, root, opening):
    (root / "sub").mkdir()
    (root / "a.txt").write_text("abc")
    (root / ".hidden").write_text("")
    (root / "link").symlink_to("/etc/passwd")
    listed = await said(tools, "list_directory")
    kinds = {e["name"]: (e["kind"], e.get("bytes")) for e in listed["result"]["entries"]}
    assert kinds == {"a.txt": ("file", 3), "link": ("link", None), "sub": ("directory", None)}
    assert listed["speech"] == "The folder root has a.txt, link, sub."
    assert (await said(tools, "list_directory", path="sub"))["speech"] == "The folder sub is empty."
    assert (await said(tools, "list_directory", hidden=True))["result"]["total"] == 4
    assert (await said(tools, "list_directory", path=".."))["status"] == "denied"


async def test_no_more_entries_are_listed_than_the_settings_say(make, root):
    for number in range(20):
        (root / f"{number:02}").touch()
    listed = (await said(make(max_entries=5), "list_directory"))["result"]
    assert (len(listed["entries"]), listed["total"]) == (5, 20)


def tree(root):
    for path, data in {
        "a.py": b"import os\nNeedle = 1\n",
        "sub/b.py": b"x = needle(2)\n",
        "sub/c.md": b"a needle\n",
        ".hidden.py": b"needle",
        ".git/d.py": b"needle",
        "binary.py": b"\0needle",
        "latin.py": "não needle".encode("cp1252"),
    }.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(data)
    (root / "out").symlink_to("../outside")
    (root / "out.py").symlink_to("../outside/secret.txt")
    os.mkfifo(root / "fifo.py")


async def test_names_are_counted_without_a_list_of_all_and_the_first_are_listed(
    make, root, monkeypatch
):
    for number in range(60):
        (root / f"{number * 7 % 60:02}.txt").touch()
    monkeypatch.setattr(os, "listdir", None)
    listed = await said(make(max_entries=3), "list_directory")
    assert listed["result"]["total"] == 60
    assert [each["name"] for each in listed["result"]["entries"]] == ["00.txt", "01.txt", "02.txt"]


async def test_a_time_that_no_calendar_has_is_left_out_of_a_listing(tools, root, monkeypatch):
    (root / "a.txt").touch()
    real = os.stat

    def later(*given, **named):
        status = list(real(*given, **named))
        status[8] = 10**15
        return os.stat_result(status)

    monkeypatch.setattr(os, "stat", later)
    listed = await said(tools, "list_directory")
    assert listed["result"]["entries"] == [{"name": "a.txt", "kind": "file", "bytes": 0}]


@pytest.mark.parametrize("name", ["read_file", "list_directory", "search_in_files", "write_file"])
async def test_a_name_that_no_file_can_have_is_a_wrong_argument(tools, name):
    others = {"search_in_files": {"pattern": "x"}, "write_file": {"content": "x"}}
    refused = await said(tools, name, path="\ud800.txt", **others.get(name, {}))
    assert (refused["status"], refused["reason_code"]) == ("invalid_argument", "no_such_name")


SEARCHES = [
    ({"pattern": "needle"}, {"latin.py:1", "sub/b.py:1", "sub/c.md:1"}),
    ({"pattern": "needle", "ignore_case": True},
     {"a.py:2", "latin.py:1", "sub/b.py:1", "sub/c.md:1"}),
    ({"pattern": r"needle\(\d\)$"}, {"sub/b.py:1"}),
    ({"pattern": "needle", "glob": "*.py"}, {"latin.py:1", "sub/b.py:1"}),
    ({"pattern": "needle", "glob": "*"}, {"latin.py:1", "sub/b.py:1", "sub/c.md:1"}),
    ({"pattern": "needle", "glob": "sub/*.md"}, {"sub/c.md:1"}),
    ({"pattern": "needle", "path": "sub"}, {"sub/b.py:1", "sub/c.md:1"}),
    ({"pattern": "needle", "path": "sub/c.md"}, {"sub/c.md:1"}),
    ({"pattern": "--files"}, set()),
    ({"pattern": "secret"}, set()),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "places"), SEARCHES, ids=[str(e[0]) for e in SEARCHES])
async def test_lines_are_found_by_expression_and_glob(make, root, searching, arguments, places):
    tree(root)
    found = await said(make(), "search_in_files", **arguments)
    matches = found.get("result", {"matches": []})["matches"]
    assert {f"{m['path']}:{m['line']}" for m in matches} == places
    assert found["status"] == ("ok" if places else "no_results")


async def test_a_line_is_shown_with_its_place(tools, root):
    tree(root)
    one = await said(tools, "search_in_files", pattern="import")
    assert one["result"]["matches"] == [{"path": "a.py", "line": 1, "text": "import os"}]
    assert one["speech"] == "I have found it in a.py, line 1."


async def test_found_lines_of_one_file_are_spoken_with_its_name(tools, root):
    (root / "a.txt").write_text("x\nx\n")
    found = await said(tools, "search_in_files", pattern="x")
    assert found["speech"] == "I have found 2 lines in a.txt, the first is line 1."


async def test_a_wrong_expression_is_named_as_such(tools, searching):
    wrong = await said(tools, "search_in_files", pattern="a(")
    assert (wrong["status"], wrong["reason_code"]) == ("invalid_argument", "bad_pattern")


async def test_a_search_is_bounded(make, root, searching):
    (root / "a.txt").write_text("needle\n" * 100_000)
    (root / "b.txt").write_text("needle" * 100_000)
    found = await said(make(max_matches=7), "search_in_files", pattern="needle")
    assert (len(found["result"]["matches"]), found["result"]["more"]) == (7, True)
    assert found["speech"].startswith("I have found more than 7 lines, the first in ")
    long = await said(make(), "search_in_files", pattern="needle", path="b.txt")
    assert len(long["result"]["matches"][0]["text"]) == 300


async def test_a_line_is_told_of_no_other_file_where_a_name_has_a_line_break(
    tools, root, searching
):
    (root / ".env").write_text("other\n")
    (root / "a\n.env").write_text("needle\n")
    everywhere = await said(tools, "search_in_files", pattern="needle")
    assert everywhere["status"] == "no_results"
    there = await said(tools, "search_in_files", pattern="needle", path="a\n.env")
    assert there["result"]["matches"] == [{"path": "a\n.env", "line": 1, "text": "needle"}]


async def test_a_search_in_a_folder_reads_no_file_of_more_than_64_megabytes(tools, root, searching):
    with (root / "a.txt").open("wb") as file:
        file.write(b"needle" * 11_200_000)
    (root / "b.txt").write_text("needle")
    found = await said(tools, "search_in_files", pattern="needle")
    assert [each["path"] for each in found["result"]["matches"]] == ["b.txt"]


@pytest.mark.slow
@pytest.mark.needs("rg", "prlimit")
def test_an_expression_with_many_states_takes_little_memory(root):
    """Ripgrep keeps the states of an expression, by default up to 1 GB in each thread."""
    digits = random.Random(1)
    lines = ("".join(digits.choices("01", k=3000)) for _ in range(200))
    (root / "a.txt").write_text("\n".join(lines))
    program, *options = Search(pattern="[01]*1[01]{500}[2-9]").command()
    limited = ["prlimit", "--as=150000000", program, "--threads=1", *options]
    ran = subprocess.run(limited, cwd=root, capture_output=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (1, b"")


def programs_in(folder):
    """The processes of this machine whose working directory is in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
        except OSError:
            continue
    return found


async def test_an_expression_that_never_ends_is_ended_with_its_program(make, root, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    (root / "a.txt").write_text("a" * 60 + "b")
    ended = await said(make(timeout="1s"), "search_in_files", pattern="(a+)+$")
    assert ended["status"] == "timeout"
    assert programs_in(root) == []


async def test_a_cancelled_search_leaves_no_program(make, root, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    (root / "a.txt").write_text("a" * 60 + "b")
    arguments = {"pattern": "(a+)+$"}
    async with make() as tools:
        ended = end_of_cancelled(tools)
        call = asyncio.ensure_future(
            tools.execute("search_in_files", arguments, session=ToolSession("a"))
        )
        while not programs_in(root):
            assert not call.done()
            await asyncio.sleep(0)
        call.cancel()
        await ended.wait()
        assert programs_in(root) == []


async def test_a_configuration_of_ripgrep_is_not_read(tools, root, tmp_path, monkeypatch):
    tree(root)
    (tmp_path / "rgrc").write_text("--follow\n--hidden\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rgrc"))
    assert (await said(tools, "search_in_files", pattern="secret"))["status"] == "no_results"


def test_the_search_without_ripgrep_is_a_program_of_its_own(root):
    from leonidas_tools.toolboxes.files import walk

    tree(root)
    ran = subprocess.run(
        [os.sys.executable, "-I", walk.__file__, "Needle", "", "", ""],
        cwd=root, capture_output=True, check=True,
    )  # fmt: skip
    assert ran.stdout == b"a.py\x002:\n"


@pytest.mark.parametrize(
    ("roots", "why"),
    [
        (["nowhere"], "'nowhere' is not a directory: "),
        (["outside/secret.txt"], "is a file"),
        ([], "must name at least one directory"),
    ],
)
def test_a_root_that_is_no_directory_is_refused_with_the_settings(
    root, make, tmp_path, monkeypatch, roots, why
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolboxError, match=why):
        make(roots=roots)


async def test_what_no_program_can_be_given_is_a_wrong_argument(tools, searching):
    pattern = await said(tools, "search_in_files", pattern="a\0b")
    assert (pattern["status"], pattern["reason_code"]) == ("invalid_argument", "bad_pattern")
    glob = await said(tools, "search_in_files", pattern="a", glob="*\0")
    assert (glob["status"], glob["reason_code"]) == ("invalid_argument", "bad_glob")


@pytest.mark.needs("rg")
async def test_ripgrep_tells_which_part_of_a_search_is_wrong(tools):
    glob = await said(tools, "search_in_files", pattern="a", glob="[")
    assert (glob["status"], glob["reason_code"]) == ("invalid_argument", "bad_glob")
    assert "'a'" not in glob["message"]
    lines = await said(tools, "search_in_files", pattern="a\nb")
    assert lines["message"].endswith("is not allowed in a regex.")
    around = await said(tools, "search_in_files", pattern="(?=a)b")
    assert "is not supported" in around["message"]
