"""`leonidas history` shows what the store has kept."""

import asyncio
import json
import re
import time
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from leonidas_tools import AdvancedToolProcessor, Approvals, Decision, Secret, ToolSession, tool
from leonidas_tools.cli import history
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.store import ReplayEvent, Store
from leonidas_tools.toolboxes import tasks

pytestmark = pytest.mark.slow


@pytest.fixture
def run(file):
    def invoke(*arguments):
        words = [str(each) for each in arguments]
        place = ["--store", str(file)] if "--config" not in words else []
        if words and not words[0].startswith("--"):
            words = [words[0], *place, *words[1:]]
        else:
            words = [*place, *words]
        return CliRunner().invoke(history.commands(), words, catch_exceptions=False)

    return invoke


@pytest.fixture
def kept(file, tell):
    """A store with two sessions, one of which was left in the middle."""

    async def fill():
        async with Store(file) as store:
            kitchen, hall = tell(store), tell(store, "hall", now=time.time() - 60)
            call = kitchen.start("look", city="Lisbon", token="abc")
            kitchen.end(call, {"sky": "foggy"})
            kitchen.run("book", status="failed")
            hall.start("pay", amount=7)

    asyncio.run(fill())


@tool(requires_approval=True)
async def pay(amount: int, pin: Annotated[str, Secret] = "") -> str:
    return f"paid {amount}"


@tool(effect="read", overflow="spill", max_result_tokens=50)
async def report() -> list[int]:
    return list(range(1000))


@pytest.fixture
def lived(file):
    """A session in which something was asked, planned, and too long."""

    async def live():
        settings = {"store": {"enabled": True, "url": str(file)}}
        async with AdvancedToolProcessor([pay, report, *tasks.TOOLS], settings) as tools:
            session = ToolSession("kitchen", user="ana")
            await tools.execute("write_tasks", {"tasks": ["Pay the rent"]}, session=session)
            await tools.execute("report", session=session)
            await tools.execute("pay", {"amount": 5, "pin": "4711-zebra"}, session=session)
            desk, ended = session.get(Approvals), asyncio.Event()
            desk.on_result(lambda *_: ended.set())
            edited = {"amount": 3, "pin": "4712-zebra"}
            desk.decide(desk.pending()[0].id, Decision.edit(edited), by="console")
            await ended.wait()
            await tools.execute("pay", {"amount": 9}, session=session)

    asyncio.run(live())


def test_all_that_is_kept_of_a_session_is_shown(run, lived):
    finished = run("show", "kitchen", "--json")
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [(line["record"], line.get("tool")) for line in lines] == [
        ("call", "write_tasks"),
        ("call", "report"),
        ("call", "pay"),
        ("call", "pay"),
        ("call", "pay"),
        ("approval", "pay"),
        ("approval", "pay"),
        ("task", None),
        ("result", None),
    ]
    first, second = (line for line in lines if line["record"] == "approval")
    told = ("decision", "answer", "decided_by", "channel", "arguments", "edited")
    assert [first[key] for key in told] == [
        "approved", "edit", "ana", "console",
        {"amount": 5, "pin": "***"}, {"amount": 3, "pin": "***"},
    ]  # fmt: skip
    assert (second["decision"], second["arguments"]["amount"]) == ("unanswered", 9)
    assert (lines[-2]["title"], lines[-2]["status"]) == ("Pay the rent", "pending")
    assert lines[-1]["session"] == "kitchen"
    assert "zebra" not in finished.stdout
    table = run("show", "kitchen").stdout
    for said in ("Calls", "Approvals", "Tasks", "Long results", "ana by console", "Pay the rent"):
        assert said in table
    with pytest.raises(ConfigurationError, match="no session 'nowhere'"):
        run("show", "nowhere")


def test_what_was_asked_is_listed(run, lived):
    found = [json.loads(line) for line in run("approvals", "--json").stdout.splitlines()]
    assert [each["decision"] for each in found] == ["unanswered", "approved"]
    some = run("approvals", "--json", "--decision", "approved", "--user", "ana").stdout
    assert [json.loads(line)["id"] for line in some.splitlines()] == [found[1]["id"]]
    assert run("approvals", "--json", "--tool", "report").stdout == ""
    assert "unanswered" in run("approvals", "--session", "kitchen").stdout
    wrong = run("approvals", "--decision", "maybe")
    assert wrong.exit_code == 2


def test_a_replay_tells_of_questions_answers_plans_and_long_results(run, lived):
    lines = run("replay", "kitchen", "--speed", 0, "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    asked = ["tool_start", "tool_approval_request", "tool_error"]
    assert [event["kind"] for event in events] == [
        "tool_start", "task_list", "tool_complete",
        "tool_start", "result_kept", "tool_complete",
        *asked, "tool_approval_answer", "tool_start", "tool_complete", *asked,
    ]  # fmt: skip
    answer = next(event["data"] for event in events if event["kind"] == "tool_approval_answer")
    assert answer == {
        "decision": "edit",
        "by": "ana",
        "channel": "console",
        "arguments": {"amount": 3, "pin": "***"},
    }
    assert "answer" in run("replay", "kitchen", "--speed", 0).stdout
    assert "zebra" not in "".join(lines)


def traces(finished):
    assert finished.exit_code == 0
    return [json.loads(line)["trace_id"] for line in finished.stdout.splitlines()]


def test_the_newest_calls_are_first(run, kept):
    assert traces(run("--json")) == ["hall-1", "kitchen-2", "kitchen-1"]
    assert traces(run("--json", "--oldest-first", "--limit", 1)) == ["kitchen-1"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--tool", "look"], ["kitchen-1"]),
        (["--status", "failed"], ["kitchen-2"]),
        (["--session", "hall"], ["hall-1"]),
        (["--user", "ana"], []),
        (["--since", "2h"], ["hall-1"]),
        (["--until", "2024-01-01"], ["kitchen-2", "kitchen-1"]),
        (["--since", "2023-11-14T00:00", "--until", "1m"], ["kitchen-2", "kitchen-1"]),
        (["--text", "FOGGY"], ["kitchen-1"]),
    ],
)
def test_calls_can_be_filtered(run, kept, options, found):
    assert traces(run("--json", *options)) == found


def test_a_table_says_how_calls_ended(run, kept):
    lines = run().stdout.splitlines()
    assert lines[0].split() == list(history._COLUMNS)
    looked = next(line for line in lines if "look" in line)
    assert '{"city": "Lisbon", "token": "***"}' in looked
    assert '{"sky": "foggy"}' in looked
    assert "1.0 s" in looked


def test_an_empty_list_says_whether_there_are_calls_at_all(run, file):
    async def open_and_close():
        async with Store(file) as store:
            await store.executions()

    asyncio.run(open_and_close())
    assert run().stdout == "No call is stored yet\n"
    assert run("--tool", "look").stdout == "There is no such call\n"


def test_a_table_says_whose_call_it_was_and_why_it_ended_so(run, lived):
    line = next(line for line in run("--tool", "pay").stdout.splitlines() if "pending" in line)
    assert line.split()[2:7] == ["kitchen", "ana", "pay", "pending_approval", "needs_approval"]
    assert "needs_approval" in run("show", "kitchen").stdout


def test_a_time_that_is_none_is_wrong_usage(run, kept):
    with pytest.raises(typer.BadParameter, match="--since 'soon' is neither a duration"):
        history._moment("soon", "--since")
    assert run("--since", "soon").exit_code == 2


def test_a_status_that_is_none_is_wrong_usage(run, kept):
    wrong = run("--status", "nonsense")
    assert wrong.exit_code == 2
    assert "There is no status 'nonsense'" in wrong.stderr


def test_sessions_are_listed(run, kept):
    lines = [json.loads(line) for line in run("sessions", "--json").stdout.splitlines()]
    assert [(line["session"], line["calls"], line["failures"]) for line in lines] == [
        ("hall", 1, 0),
        ("kitchen", 2, 1),
    ]
    assert "kitchen" in run("sessions").stdout


def test_the_tokens_of_a_session_are_listed_and_replayed(run, file):
    used = {"turn": 1, "model": "m", "tokens": {"input": {"text": 7}, "output": {"audio": 5}}}
    used |= {"input_tokens": 7, "output_tokens": 5, "cost": 0.0125}

    async def fill():
        async with Store(file) as store:
            for _ in range(2):
                store.usage.on_live("usage", ToolSession("kitchen", user="ana"), used)

    asyncio.run(fill())
    (session,) = [json.loads(line) for line in run("sessions", "--json").stdout.splitlines()]
    counts = ("user", "calls", "input_tokens", "output_tokens", "cost")
    assert [session[name] for name in counts] == ["ana", 0, 14, 10, 0.025]
    assert {"24", "0.0250"} <= set(run("sessions").stdout.split())
    turns = run("replay", "kitchen", "--speed", 0, "--json").stdout.splitlines()
    assert [json.loads(line)["data"]["tokens"] for line in turns] == [used["tokens"]] * 2


def test_a_session_is_replayed(run, kept):
    finished = run("replay", "kitchen", "--speed", 0)
    assert finished.stdout.splitlines() == [
        '   0.000  start     look  {"city": "Lisbon", "token": "***"}',
        '   1.000  complete  look in 1.0 s  {"status": "ok", "result": {"sky": "foggy"}}',
        "   2.000  start     book  {}",
        '   3.000  failed    book in 1.0 s  {"status": "failed"}',
    ]
    assert "Audio and transcripts are not stored" in finished.stderr
    with pytest.raises(ConfigurationError, match="no session 'nowhere'"):
        run("replay", "nowhere")


@pytest.mark.parametrize(
    ("speed", "longest", "pauses"),
    [(1, 5, [0, 2, 5, 0]), (2, 5, [0, 1, 5, 0]), (0, 5, [0, 0, 0, 0]), (1, 60, [0, 2, 30, 0])],
)
def test_a_replay_has_the_pauses_of_the_session(speed, longest, pauses):
    events = [
        ReplayEvent(at=at, kind="tool_start", tool="t", trace_id="s-1", data={})
        for at in (100, 102, 132, 131.5)
    ]
    assert [pause for pause, _ in history.pace_events(events, speed, longest)] == pauses


def test_what_was_interrupted_is_listed_until_somebody_has_taken_note(run, kept):
    assert traces(run("interrupted", "--json")) == ["hall-1"]
    assert "interrupted (may have happened)" in run("interrupted", "--acknowledge").stdout
    assert traces(run("interrupted", "--json")) == []
    assert run("interrupted").stdout == "No call was interrupted\n"
    assert traces(run("--json", "--status", "interrupted")) == ["hall-1"]


def test_a_file_that_is_no_store_is_left_as_it_is(run, file):
    file.parent.mkdir(parents=True)
    file.write_text("Notes of somebody.")
    with pytest.raises(ConfigurationError, match="is not a store"):
        run()
    with pytest.raises(ConfigurationError, match="is a directory: name the file in it"):
        run("--store", file.parent)
    assert [(each.name, each.read_text()) for each in file.parent.iterdir()] == [
        (file.name, "Notes of somebody.")
    ]


def test_more_rows_than_there_can_be_are_wrong_usage(run, kept):
    for command in ([], ["sessions"], ["approvals"]):
        assert run(*command, "--limit", 10**20).exit_code == 2


READING = [["--json"], ["sessions"], ["replay", "s"], ["show", "s"], ["approvals"], ["interrupted"]]


@pytest.mark.parametrize("command", READING)
def test_where_nothing_is_kept_that_is_an_error_and_no_file_is_made(run, file, tmp_path, command):
    said = re.escape(f"The store {str(file)!r} does not exist: correct the path")
    with pytest.raises(ConfigurationError, match=f"--store: {said}"):
        run(*command)
    settings = tmp_path / "tools.yaml"
    settings.write_text(f"version: 1\nstore:\n  url: {file}\n")
    said = re.escape(f"Nothing is stored yet: there is no store {str(file)!r}; write")
    with pytest.raises(ConfigurationError, match=f"^{said} `store: {{enabled: true}}`"):
        run(*command, "--config", settings)
    assert not file.exists()


def test_an_address_that_is_none_names_the_option_and_what_can_be_written(run):
    with pytest.raises(
        ConfigurationError, match=r"--store: .*'foo'; .* sqlite:///FILE or postgres"
    ):
        run("--store", "foo://ana:hunter2@bar")
    with pytest.raises(ConfigurationError, match=r"--store: .* is invalid; write") as caught:
        run("--store", "postgresql://ana:hunter2@host:port/name")
    assert "hunter2" not in str(caught.value)


def test_the_settings_say_where_the_store_is(run, kept, file, tmp_path):
    settings = tmp_path / "tools.yaml"
    settings.write_text(f"version: 1\nstore:\n  url: {file}\n")
    assert len(traces(run("--config", settings, "--json"))) == 3
