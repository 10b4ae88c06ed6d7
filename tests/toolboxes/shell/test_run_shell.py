"""The tool `run_shell`: in the sandbox, asked about where it is risky, and ended with its call."""

import asyncio
import json

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolSession
from leonidas_tools.approvals.request import Decision
from leonidas_tools.calls.events import EventKind
from leonidas_tools.sandbox import NoSandboxError, Sandbox
from tests.sandbox.boxes import alive, token


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
    def made(*, channel=None, more="", **settings):
        given = json.dumps({"roots": [str(root)], **settings})
        (tmp_path / "tools.yaml").write_text(f"toolboxes: [{{shell: {given}}}]\n{more}")
        return AdvancedToolProcessor(config=tmp_path / "tools.yaml", approval=channel)

    return made


class Asked:
    """A channel that notes what it is asked."""

    def __init__(self, decision):
        self.decision = decision
        self.requests = []

    async def __call__(self, request):
        self.requests.append(request)
        return self.decision


async def test_a_command_runs_in_the_first_root(make, root):
    result = await make().execute("run_shell", {"command": "pwd; echo wrong >&2; exit 3"})
    assert result.to_response()["status"] == "ok"
    assert result.result.pop("seconds") >= 0
    assert result.result == {"exit_code": 3, "stdout": f"{root}\n", "stderr": "wrong\n"}
    assert result.speech == "The command ended with exit code 3."


async def test_a_working_directory_is_one_in_the_roots(make, root, tmp_path):
    tools = make()
    (root / "sub").mkdir()
    (root / "out").symlink_to(tmp_path)
    said = await tools.execute("run_shell", {"command": "pwd", "working_directory": "sub"})
    assert said.result["stdout"] == f"{root}/sub\n"
    for outside in ("..", "/etc", "out", str(tmp_path)):
        arguments = {"command": "pwd", "working_directory": outside}
        result = await tools.execute("run_shell", arguments)
        assert (result.status, result.reason_code) == ("denied", "outside_roots")
    result = await tools.execute("run_shell", {"command": "pwd", "working_directory": "none"})
    assert (result.status, result.reason_code) == ("not_found", "no_such_directory")


async def test_nothing_outside_is_seen_and_no_variable_of_ours(make, tmp_path, monkeypatch):
    monkeypatch.setenv("API_KEY", "sesame-open")
    (tmp_path / "secret").write_text("sesame-open")
    command = f"env; cat {tmp_path}/secret ../secret /proc/*/environ"
    result = await make().execute("run_shell", {"command": command})
    assert "sesame" not in str(result.result)


async def test_what_is_risky_asks_and_a_no_runs_nothing(make, root):
    (root / "kept").touch()
    asked = Asked(Decision.deny("keep it"))
    result = await make(channel=asked).execute("run_shell", {"command": "rm -rf kept"})
    assert result.status == "denied"
    (request,) = asked.requests
    assert request.rule == "risks"
    assert request.details["command"] == "rm -rf kept"
    assert (root / "kept").exists()


async def test_an_approved_command_runs_and_always_covers_no_other(make, root):
    (root / "gone").touch()
    asked = Asked(Decision.always())
    tools = make(channel=asked)
    session = ToolSession("ana")
    for command in ("rm -rf gone", "rm -rf other", "ls"):
        assert (await tools.execute("run_shell", {"command": command}, session=session)).ok
    assert [each.details["command"] for each in asked.requests] == ["rm -rf gone", "rm -rf other"]
    assert not (root / "gone").exists()


async def test_what_is_harmless_does_not_ask(make):
    asked = Asked(Decision.deny("no"))
    assert (await make(channel=asked).execute("run_shell", {"command": "ls | wc -l"})).ok
    assert asked.requests == []


async def test_the_settings_may_never_ask_or_always(make):
    asked = Asked(Decision.approve())
    never = "tools: {run_shell: {requires_approval: false}}"
    tools = make(channel=asked, more=never)
    assert (await tools.execute("run_shell", {"command": "rm -rf x"})).ok
    assert asked.requests == []
    tools = make(channel=asked, more="tools: {run_shell: {requires_approval: true}}")
    assert (await tools.execute("run_shell", {"command": "ls"})).ok
    assert len(asked.requests) == 1


async def test_rules_match_each_command_inside_another(make):
    rules = """
policies:
  rules:
    - {name: no npm, tools: run_shell, when: {"commands[*].program": {equals: npm}}, decide: deny}
"""
    tools = make(more=rules)
    for command in ("npm i", "cd x; env A=1 npm i", "bash -c 'true && npm i'", "echo $(npm i)"):
        result = await tools.execute("run_shell", {"command": command})
        assert (result.status, command) == ("denied", command)
    assert (await tools.execute("run_shell", {"command": "echo npm"})).ok


DENIES = """
policies:
  mode: autonomous
  rules:
    - {name: kept, tools: run_shell, when: {"commands[*].program": {equals: rm}}, decide: deny}
"""


@pytest.mark.parametrize(
    "command",
    [
        "# x \\\nr\\\nm -rf kept",
        "bash --init-file <(echo rm -rf kept) -ic : </dev/null",
        "setarch -R rm -rf kept",
        "readarray -c1 -C'rm -rf kept #' a <<< x",
        "shopt -s expand_aliases\nalias aa='rm '\nalias bb='-rf kept'\naa bb",
        "python3 -c 'import shutil; shutil.rmtree(\"kept\")'",
        "printf '[core]\\nfsmonitor = rm -rf kept' >> .git/config; git status",
        "cp config .git/config && git status",
        "/bin/r? -rf kept",
        "x=rm; $x -rf kept",
    ],
)
async def test_a_denied_program_cannot_run_in_another(make, root, command):
    (root / "kept").mkdir()
    result = await make(more=DENIES).execute("run_shell", {"command": command})
    assert (result.status, result.reason_code) == ("denied", "denied_by_rule")
    assert (root / "kept").exists()


async def test_a_denied_program_leaves_others_that_are_certain(make, root):
    tools = make(more=DENIES)
    for command in ("ls | wc -l", "mkdir a && touch a/b", "git --version", "echo rm"):
        assert (await tools.execute("run_shell", {"command": command})).ok
    assert (root / "a" / "b").exists()


async def test_a_kind_of_risk_that_no_longer_is_denies_in_doubt(make):
    rule = "{name: r, tools: run_shell, when: {'risks[*]': {equals: destroys}}, decide: deny}"
    tools = make(more=f"policies: {{mode: autonomous, rules: [{rule}]}}")
    assert (await tools.execute("run_shell", {"command": "make"})).status == "denied"
    assert (await tools.execute("run_shell", {"command": "ls"})).ok


async def test_an_allowed_program_runs_unasked_where_it_is_certain(make):
    rule = "when: {'commands[*].program': {matches: '^(true|mkdir|nice)$'}}, decide: allow"
    asked = Asked(Decision.deny("no"))
    tools = make(channel=asked, more=f"policies: {{rules: [{{name: r, {rule}}}]}}")
    for command in ("mkdir a", "true && nice true"):
        assert (await tools.execute("run_shell", {"command": command})).ok
    assert asked.requests == []
    for command in ("mkdir a; make", "nice $(make)", "true > x", "nice true # x", "$x mkdir"):
        assert (await tools.execute("run_shell", {"command": command})).status == "denied"
    assert len(asked.requests) == 5


async def test_reading_a_repository_runs_no_program_that_it_names(make, root):
    tools = make(more="tools: {run_shell: {requires_approval: false}}")
    makes = "git init -q --bare x && git -C x config core.bare false && git init -q . && "
    makes += "for r in . x; do git -C $r config core.fsmonitor 'touch ran; false'; done"
    assert (await tools.execute("run_shell", {"command": makes})).result["exit_code"] == 0
    (root / "x" / "f").touch()
    for command in ("git status", "cd x && git status", "git -C x status"):
        assert (await tools.execute("run_shell", {"command": command})).ok
    assert [*root.rglob("ran")] == []
    await tools.execute("run_shell", {"command": "git status  # asked about"})
    assert [*root.rglob("ran")] != []


async def test_a_session_that_only_reads_runs_nothing(make):
    tools = make(more="policies: {mode: read_only}")
    assert (await tools.execute("run_shell", {"command": "ls"})).status == "denied"


async def test_output_is_progress_while_the_command_runs(make, root):
    tools = make()
    told = []

    def hear(event):
        if event.kind is EventKind.PROGRESS:
            told.append(dict(event.data))
            (root / "go").touch()

    tools.monitor.subscribe(hear)
    command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two"
    result = await tools.execute("run_shell", {"command": command})
    assert told[0] == {"stdout": "one\n"}
    assert result.result["stdout"] == "one\ntwo\n"


async def test_a_timeout_keeps_what_was_printed(make):
    word = token()
    tools = make(timeout="2s")
    result = await tools.execute("run_shell", {"command": f"echo begun; sleep {word}"})
    assert (result.status, result.reason_code) == ("timeout", "stopped_by_timeout")
    assert result.result["stdout"] == "begun\n"
    assert alive(word) == []


async def test_a_call_may_ask_for_less_time_and_not_for_more(make):
    word = token()
    arguments = {"command": f"sleep {word}", "timeout_seconds": 0.2}
    result = await make().execute("run_shell", arguments)
    assert result.status == "timeout"
    arguments = {"command": f"sleep {word}", "timeout_seconds": 1000}
    result = await make(timeout="200ms").execute("run_shell", arguments)
    assert result.status == "timeout"


async def test_a_flood_is_bounded_and_named(make):
    result = await make(output_kilobytes=4).execute("run_shell", {"command": "yes"})
    assert (result.status, result.reason_code) == ("failed", "stopped_by_output")
    assert len(result.result["stdout"]) < 5_000
    assert result.result["left_out_bytes"] > 0


async def test_a_cancelled_call_leaves_nothing_running(make):
    word, begun = token(), asyncio.Event()
    tools = make()
    tools.monitor.subscribe(lambda event: begun.set() if event.kind is EventKind.PROGRESS else None)
    arguments = {"command": f"echo up; sleep {word} & sleep {word}"}
    task = asyncio.ensure_future(tools.execute("run_shell", arguments))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while alive(word):  # the call is answered at once, and then ended
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"backend": "docker"}, "backend"),
        ({"timeout": "soon"}, "timeout"),
        ({"root": "x"}, "root"),
        ({"network": "maybe"}, "network"),
    ],
)
async def test_wrong_settings_are_named(make, settings, path):
    with pytest.raises(Exception, match=path):
        make(**settings)


async def test_without_isolation_the_tool_is_unavailable(make, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = await make(backend="bubblewrap").execute("run_shell", {"command": "ls"})
    assert (result.status, result.reason_code) == ("unavailable", "no_sandbox")


@pytest.mark.parametrize("text", ["echo a\0b", "echo " + "\N{GRINNING FACE}" * 40_000])
async def test_what_no_program_can_be_given_is_a_wrong_argument(make, text):
    tools = make(more="tools: {run_shell: {requires_approval: false}}")
    result = await tools.execute("run_shell", {"command": text})
    said = result.to_response()
    assert (said["status"], said["reason_code"]) == ("invalid_argument", "unrunnable_program")
    assert "Traceback" not in said["message"]


async def test_a_working_directory_with_a_null_character_is_not_there(make):
    said = await make().execute("run_shell", {"command": "pwd", "working_directory": "a\0b"})
    assert (said.status, said.reason_code) == ("not_found", "no_such_directory")
