"""The tool `execute_code`: whole Python in the sandbox, and snippets in Monty."""

import asyncio
import base64
import json
import os

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolSession
from leonidas_tools.calls.events import EventKind
from leonidas_tools.sandbox import NoSandboxError, Sandbox
from leonidas_tools.toolboxes.code import KeptVariables
from tests.sandbox.boxes import alive, children, token


@pytest.fixture(scope="module")
def sandbox_works():
    async def tried():
        async with Sandbox() as box:
            await box.run(["true"])

    try:
        asyncio.run(tried())
    except NoSandboxError as error:
        pytest.skip(str(error))


@pytest.fixture
def root(tmp_path, sandbox_works):
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def make(root, tmp_path):
    def made(**settings):
        given = json.dumps({"roots": [str(root)], **settings})
        (tmp_path / "tools.yaml").write_text(f"toolboxes: [{{code: {given}}}]\n")
        return AdvancedToolProcessor(config=tmp_path / "tools.yaml")

    return made


async def ran(tools, code, session=None, **arguments):
    arguments = {"code": code, **arguments}
    return await tools.execute("execute_code", arguments, session=session or ToolSession("ana"))


@pytest.fixture(params=["python", "monty"])
def tools(request, make):
    return make(engine=request.param)


async def test_the_value_of_the_last_expression_and_the_output_are_returned(tools):
    result = await ran(tools, "print('hello')\nx = 20\nx * 2 + 2")
    assert result.ok
    assert (result.result["value"], result.result["output"]) == (42, "hello\n")
    assert "value" not in (await ran(tools, "x = 1")).result


async def test_an_exception_is_reported_with_its_place(tools):
    result = await ran(tools, "print('before')\nx = 1\n1 / 0")
    assert (result.status, result.reason_code) == ("failed", "code_raised")
    assert "ZeroDivisionError" in result.to_response()["message"]
    assert result.result["output"] == "before\n"
    assert "ZeroDivisionError" in result.result["traceback"]
    wrong = await ran(tools, "if:")
    assert "SyntaxError" in wrong.to_response()["message"]


async def test_a_session_keeps_its_variables_and_no_other_has_them(tools):
    ana, ben = ToolSession("ana"), ToolSession("ben")
    assert (await ran(tools, "x = [1, 2]\ndef double(y):\n    return 2 * y", ana)).ok
    assert (await ran(tools, "x.append(double(4)); x", ana)).result["value"] == [1, 2, 8]
    assert (await ran(tools, "x", ben)).reason_code == "code_raised"
    assert (await ran(tools, "x", ana, fresh=True)).reason_code == "code_raised"


async def test_variables_are_kept_after_an_exception(tools):
    session = ToolSession("ana")
    await ran(tools, "x = 5\n1 / 0", session)
    assert (await ran(tools, "x", session)).result["value"] == 5


async def test_time_is_limited_and_nothing_is_left(make):
    for engine in ("python", "monty"):
        tools = make(engine=engine, timeout="1s")
        result = await ran(tools, "while True:\n    pass")
        assert (result.status, result.reason_code) == ("timeout", "stopped_by_timeout")
        if engine == "monty":
            assert not children(os.getpid()).intersection(alive("bin/monty"))


async def test_memory_is_limited(make):
    for engine in ("python", "monty"):
        tools = make(engine=engine, memory_megabytes=300)
        result = await ran(tools, "x = [0] * 10 ** 9\nlen(x)")
        assert result.status == "failed"
        assert "value" not in result.result


GREEDY = {  # the process of Monty ends, while the code runs or while its variables are kept
    "in the code": "'x'.replace('x', 'y' * 200_000_000)",
    "of variables": "x = 'y' * 200_000_000",
}


@pytest.mark.parametrize("place", GREEDY)
async def test_monty_at_its_limit_of_memory_keeps_the_variables_of_before(make, place):
    tools, session = make(engine="monty", memory_megabytes=256), ToolSession("ana")
    assert (await ran(tools, "x = 5", session)).ok
    result = await ran(tools, GREEDY[place], session)
    assert result.result["not_kept"] == ["*"]
    assert result.reason_code in (None, "code_raised")
    assert (await ran(tools, "x", session)).result["value"] == 5


async def test_monty_tells_of_variables_that_are_too_big_to_keep(make):
    tools, session = make(engine="monty", max_kept_kilobytes=16), ToolSession("ana")
    assert (await ran(tools, "x = 'y' * 100_000", session)).result["not_kept"] == ["*"]
    assert (await ran(tools, "x", session)).reason_code == "code_raised"


ATTACKS = {
    "a file": "open({secret!r}).read()",
    "the environment": "import os\ndict(os.environ)",
    "a program": "import subprocess\nsubprocess.run(['cat', {secret!r}], capture_output=True)",
    "another process": "import os\nopen('/proc/{pid}/environ').read()",
    "a link": "import os\nos.symlink({secret!r}, 'x')\nopen('x').read()",
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_nothing_outside_is_read(tools, tmp_path, monkeypatch, attack):
    monkeypatch.setenv("API_KEY", "sesame-open")
    (tmp_path / "secret").write_text("sesame-open")
    code = ATTACKS[attack].format(secret=str(tmp_path / "secret"), pid=os.getpid())
    result = await ran(tools, code)
    assert "sesame" not in json.dumps(result.to_response())


async def test_monty_writes_no_file(make, root):
    await ran(make(engine="monty"), f"open({str(root / 'x')!r}, 'w').write('x')")
    assert list(root.iterdir()) == []


async def test_new_and_changed_files_are_named(make, root):
    (root / "old").write_text("a")
    (root / "same").write_text("a")
    code = "import os; os.mkdir('d'); open('d/new', 'w').write('abc'); open('old', 'a').write('b')"
    result = await ran(make(), code)
    assert result.result["files"] == [{"path": "d/new", "bytes": 3}, {"path": "old", "bytes": 2}]
    assert (root / "d" / "new").read_text() == "abc"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_figures_come_back_as_pictures(make, backend):
    code = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.figure()
plt.bar([1], [2])
"""
    result = await ran(make(timeout="100s", backend=backend), code)
    if result.reason_code == "no_sandbox":
        pytest.skip(f"{backend} does not work here")
    assert result.ok, result
    assert "Permission denied" not in result.result.get("errors", "")
    assert result.result["figures"] == 2
    assert [each.mime_type for each in result.media] == ["image/png"] * 2
    assert all(each.data.startswith(b"\x89PNG\r\n") for each in result.media)


async def test_what_cannot_be_kept_is_named(make):
    session, tools = ToolSession("ana"), make()
    result = await ran(tools, "a = 1\nb = (i for i in [1])\nclass C: pass\nc = C()", session)
    assert result.result["not_kept"] == ["b"]
    assert (await ran(tools, "a, type(c).__name__", session)).result["value"] == [1, "C"]


async def test_imports_functions_and_classes_are_kept(make):
    session, tools = ToolSession("ana"), make()
    await ran(tools, "import math as m\nfrom os import path\ndef f(x): return m.floor(x)", session)
    await ran(tools, "def f(x): return m.ceil(x)", session)
    said = await ran(tools, "f(1.2), path.join('a', 'b')", session)
    assert said.result["value"] == [2, "a/b"]


async def test_variables_that_are_too_large_are_not_kept(make):
    session, tools = ToolSession("ana"), make(max_kept_kilobytes=1)
    assert (await ran(tools, "x = 1", session)).ok
    result = await ran(tools, "y = 'a' * 10_000", session)
    assert result.result["not_kept"] == ["*"]
    assert (await ran(tools, "x", session)).result["value"] == 1


async def test_variables_of_any_size_do_not_fail_the_call(make):
    result = await ran(make(), "y = bytes(60_000_000)\nlen(y)")
    assert (result.ok, result.result["value"], result.result["not_kept"]) == (
        True,
        60_000_000,
        ["*"],
    )


async def test_our_process_never_reads_a_pickle_of_the_code(make, tmp_path):
    session, tools = ToolSession("ana"), make()
    code = f"""
class Evil:
    def __reduce__(self):
        return (open, ({str(tmp_path / "evil")!r}, "w"))
evil = Evil()
"""
    assert (await ran(tools, code, session)).ok
    await ran(tools, "1", session)
    assert not (tmp_path / "evil").exists()
    assert type(session.get(KeptVariables).states["python"]) is str


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(7)",
        "import ctypes; ctypes.string_at(0)",
        "import os, socket\nsocket.socket(fileno=os.dup(3)).sendall(b'{{{')\nos._exit(0)",
        "import os, socket\nsocket.socket(fileno=os.dup(3)).sendall(b'[1]')\nos._exit(0)",
        "import os\nos.write(3, b'{\"value\": [' + b'0,' * 30_000 + b'0]}')\nos._exit(0)",
        "import os\nos.write(3, b'{\"value\": \"' + b'x' * 1_500_000 + b'\"}\\n')\nos._exit(0)",
        "import os; os.close(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
async def test_code_that_ends_its_interpreter_or_forges_the_answer_fails(make, code):
    result = await ran(make(), code)
    assert (result.status, result.reason_code) == ("failed", "code_died")


async def test_code_runs_beside_folders_that_are_nested_without_end(make, root):
    tools = make()
    code = "import os\nfor _ in range(1_500):\n    os.mkdir('d')\n    os.chdir('d')"
    try:
        assert (await ran(tools, code)).ok
        assert (await ran(tools, "6 * 7")).result["value"] == 42
    finally:  # `shutil.rmtree` cannot remove them
        removing = await asyncio.create_subprocess_exec("rm", "-rf", root / "d")
        await removing.wait()


async def test_variables_that_are_cut_off_are_not_kept(make):
    session, tools = ToolSession("ana"), make()
    assert (await ran(tools, "x = 1", session)).ok
    cut = "import os\nos.write(3, b'{}\\n{\"definitions\"')\nos._exit(0)"
    assert (await ran(tools, cut, session)).reason_code == "code_died"
    assert (await ran(tools, "x", session)).result["value"] == 1


async def test_a_forged_answer_is_only_data(make):
    forged = {"figures": ["!"], "error": 5, "value": {"a": [1]}}
    figure = base64.b64encode(b"\x89PNG").decode()
    lines = [json.dumps(forged), "7", "!", "aGVsbG8=", *[figure] * 20]
    code = f"""
import os, socket
socket.socket(fileno=os.dup(3)).sendall("".join(f"{{each}}\\n" for each in {lines!r}).encode())
os._exit(0)
"""
    result = await ran(make(), code)
    assert result.ok
    assert result.result["value"] == {"a": [1]}
    assert len(result.media) == 6  # of eight lines, two are no pictures


async def test_exit_is_reported_like_an_exception(make):
    result = await ran(make(), "import sys; print('x'); sys.exit(3)")
    assert result.reason_code == "code_raised"
    assert "SystemExit" in result.to_response()["message"]


async def test_a_cancelled_call_leaves_nothing_running(make):
    word, begun = token(), asyncio.Event()
    tools = make()
    tools.monitor.subscribe(lambda event: begun.set() if event.kind is EventKind.PROGRESS else None)
    code = f"import subprocess\nprint('up', flush=True)\nsubprocess.run(['sleep', '{word}'])"
    task = asyncio.ensure_future(ran(tools, code))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while alive(word):  # the call is answered at once, and then ended
        await asyncio.sleep(0.01)


async def test_without_isolation_the_tool_is_unavailable(make, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = await ran(make(backend="bubblewrap"), "1")
    assert (result.status, result.reason_code) == ("unavailable", "no_sandbox")


async def test_what_stays_after_the_answer_is_bounded(make):
    result = await ran(make(output_kilobytes=4), "print('x' * 100_000)\n'y' * 100_000")
    assert result.ok
    assert len(result.result["output"]) < 5_000
    assert len(result.result["value"]) < 21_000
