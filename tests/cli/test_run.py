import functools
import json
import os
import pty
import signal
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from leonidas_tools.simulator import (
    Call,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)

SHIPPED = Path(__file__).parents[2] / "config" / "tools.yaml"
WEATHER = {"city": "Lisbon", "sky": "foggy", "degrees": 9, "unit": "celsius"}


def events(finished):
    return [json.loads(line) for line in finished.stdout.splitlines()]


def without_times(event):
    return {key: value for key, value in event.items() if key not in ("at", "seconds")}


@pytest.fixture
def scenario(tmp_path):
    def write(*steps):
        file = tmp_path / "scenario.yaml"
        file.write_text(yaml.safe_dump({"name": "Small", "steps": list(steps)}))
        return file

    return write


@pytest.mark.slow
def test_the_demo_plays_from_any_folder_with_its_mcp_server(started):
    finished = started("run", "--speed", "inf")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("    0.00  session     the simulator plays 'Demo'")
    assert "agent       Let me think.\n" in finished.stdout
    assert 'called      get_current_time(timezone="Asia/Tokyo")\n' in finished.stdout
    assert "cancelled   search_flights\n" in finished.stdout
    assert "\n9 calls: 8 answered once, 1 cancelled; passed\n" in finished.stdout
    assert "\n11 calls: 11 answered once, 0 cancelled; passed\n" in finished.stdout
    assert "tools       +flip_coin\n" in finished.stdout  # while the model talks
    assert "\n4 calls: 4 answered once, 0 cancelled; passed\n" in finished.stdout
    assert finished.stdout.count("\nspilled: the result was too long; ") == 1
    next_steps = finished.stdout.rpartition("passed")[2]
    assert "leonidas tools call NAME " in next_steps
    assert next_steps.endswith("leonidas --help            lists all commands\n")
    # A busy machine may hold the event loop, which is logged and not what is tested here.
    told = [line for line in finished.stderr.splitlines() if "blocked the event loop" not in line]
    assert told == ["Starting MCP servers: time"]


def test_a_tool_that_asks_first_runs_only_after_the_user_has_said_yes(leonidas, settings):
    finished = leonidas("run", "approval", "--speed", "inf", "--json", "--config", settings)
    assert finished.returncode == 0, finished.stderr
    told = events(finished)
    answers = {event["id"]: event["response"] for event in told if event["event"] == "answered"}
    assert {name: answer["status"] for name, answer in answers.items()} == {
        "first": "pending_approval",
        "agreed": "ok",
        "second": "pending_approval",
        "hasty": "pending_approval",
        "misheard": "denied",
    }
    sent = {"sent": 20, "currency": "EUR", "to": "Ana"}
    assert answers["agreed"]["result"]["result"] == sent
    decided = [(e["decision"], e["by"]) for e in told if e["event"] == "approval_answer"]
    assert decided == [("approve", "voice"), ("deny", "voice")]


def test_what_a_policy_does_is_seen_at_the_beginning_of_its_line(leonidas, tmp_path):
    shipped = yaml.safe_load(SHIPPED.read_text())
    (tmp_path / "tools.yaml").write_text(yaml.safe_dump({**shipped, "mcp_servers": {}}))
    finished = leonidas("run", "policies", "--speed", "inf", "--config", "tools.yaml")
    assert finished.returncode == 0, finished.stderr
    told = [line[10:].partition(":")[0].split() for line in finished.stdout.splitlines()]
    marks = ("asked", "approved", "denied", "cached", "stopped", "spilled")
    assert [tuple(words[:2]) for words in told if words and words[0] in marks] == [
        ("asked", "send_money"),
        ("approved", "send_money,"),
        ("asked", "send_money"),
        ("denied", "send_money,"),
        ("cached", "get_weather"),
        ("cached", "get_weather"),
        ("cached", "get_weather"),
        ("stopped", "get_weather"),
        ("spilled", "read_log"),
    ]
    assert "the same result 3 times in a row" in finished.stdout  # the model is told
    assert "12:00 kitchen: error: the oven does not answer" in finished.stdout  # by read_result
    assert finished.stderr == ""


@pytest.mark.slow
def test_no_scenario_finds_what_another_has_cached(leonidas, settings, tmp_path):
    with settings.open("a") as file:
        file.write("tools: {get_weather: {cache_seconds: 600}}\n")
    call = "{call: {id: it, name: get_weather, args: {city: Porto}}}"
    scenario = f"name: x\nsteps: [{call}, {{expect: {{id: it, status: ok}}}}, turn_complete]\n"
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(scenario)
    finished = leonidas("run", "one.yaml", "two.yaml", "--speed", "0", "--config", settings)
    assert finished.returncode == 0, finished.stderr
    told = " ".join(finished.stdout.split())
    assert (told.count("answered get_weather"), told.count("cached get_weather")) == (2, 0)


def test_a_session_is_a_json_object_a_line(leonidas, settings):
    finished = leonidas("run", "one_call", "--json", "--config", settings)
    assert finished.returncode == 0, finished.stderr
    *told, summary = events(finished)
    assert [without_times(event) for event in told] == [
        {
            "event": "session",
            "text": "the simulator plays 'One call', since there is no GEMINI_API_KEY",
            "mode": "simulator",
            "scenario": "One call",
            "profile": "2.5-native-audio",
        },
        {"event": "connection_opened", "connection": 1, "resumed": False, "audio_dropped": 0},
        {"event": "said", "who": "user", "text": "How is the weather in Lisbon?"},
        {
            "event": "called",
            "id": "weather",
            "tool": "get_weather",
            "arguments": {"city": "Lisbon"},
        },
        {
            "event": "answered",
            "id": "weather",
            "tool": "get_weather",
            "response": {"status": "ok", "result": WEATHER, "retryable": False},
        },
        {"event": "said", "who": "agent", "text": "Here it is: ok."},
        {"event": "turn_complete"},
    ]
    (call,) = summary.pop("calls")
    assert summary == {
        "event": "summary",
        "ok": True,
        "interrupted": False,
        "connections": 1,
        "survived": 0,
        "violations": 0,
        "problems": [],
    }
    assert call.pop("seconds") >= 0
    assert call == {
        "id": "weather",
        "tool": "get_weather",
        "status": "ok",
        "answers": 1,
        "ok": True,
        "survived": False,
    }


@pytest.mark.slow
def test_several_scenarios_play_one_after_another(leonidas, settings):
    finished = leonidas("run", "burst", "cancel", "--json", "--speed", 10, "--config", settings)
    assert finished.returncode == 0, finished.stderr
    summaries = [event for event in events(finished) if event["event"] == "summary"]
    assert [len(summary["calls"]) for summary in summaries] == [20, 2]
    assert [call["status"] for call in summaries[1]["calls"]] == ["cancelled", "ok"]


def test_an_expectation_that_is_not_met_ends_with_1(leonidas, settings, scenario):
    file = scenario(
        {"call": {"id": "die", "name": "roll_dice", "args": {"sides": 1}}},
        {"expect": {"id": "die", "status": "ok"}},
    )
    finished = leonidas("run", file, "--config", settings)
    assert finished.returncode == 1
    assert "✗ connection 1: step 2" in finished.stdout
    assert "Traceback" not in finished.stdout + finished.stderr


def test_a_key_leads_to_a_real_session_with_what_is_typed(leonidas, settings):
    steps = [
        WaitForInput("text", containing="Lisbon"),
        Call.one("get_weather", {"city": "Lisbon"}, id="weather"),
        WaitForAnswers(),
        Say("It is foggy. Take a light."),
        TurnComplete(),
    ]
    with LiveSimulator(Scenario(steps)) as simulator:
        finished = leonidas(
            *("run", "--json", "--config", settings, "--model", "gemini-live-test"),
            stdin="How is the weather in Lisbon?\n",
            **simulator.environment(),
        )
        assert finished.returncode == 0, finished.stderr
        (setup,) = simulator.setups
        assert setup["model"] == "models/gemini-live-test"
        assert all(call.answered_once for call in simulator.calls)
    told = events(finished)
    assert told[0]["mode"] == "live"
    said = [(event["who"], event["text"]) for event in told if event["event"] == "said"]
    assert said == [
        ("user", "How is the weather in Lisbon?"),
        ("agent", "It is foggy."),
        ("agent", "Take a light."),
    ]
    assert told[-1]["ok"]
    assert [call["status"] for call in told[-1]["calls"]] == ["ok"]


def test_a_key_in_a_dotenv_file_counts(leonidas, settings, tmp_path):
    with LiveSimulator(Scenario([TurnComplete()])) as simulator:
        variables = simulator.environment()
        (tmp_path / ".env").write_text(f"GEMINI_API_KEY='{variables.pop('GEMINI_API_KEY')}'\n")
        finished = leonidas("run", "--json", "--config", settings, **variables)
        assert finished.returncode == 0, finished.stderr
        assert len(simulator.setups) == 1
    assert events(finished)[0]["mode"] == "live"


def test_a_session_that_is_refused_is_reported_in_a_line_and_ends_with_1(leonidas, settings):
    with LiveSimulator(Scenario()) as simulator:
        variables = simulator.environment()
        variables["GOOGLE_GEMINI_BASE_URL"] += "/nowhere"
        finished = leonidas("run", "--config", settings, stdin="Hello?\n", **variables)
    assert finished.returncode == 1
    assert "✗ the connection was lost: " in finished.stdout
    assert finished.stderr == ""


@pytest.mark.slow
def test_ctrl_c_ends_with_the_summary(command, environment, settings, scenario):
    file = scenario(
        {"call": {"id": "die", "name": "roll_dice"}},
        "wait_for_answers",
        {"say": "Thrown."},
        "generation_complete",
        "turn_complete",
        {"pause": 60},
    )
    options = command(environment)
    options["args"] += ["run", str(file), "--json", "--config", str(settings)]
    # Who is started in the background ignores Ctrl-C, and hands that on.
    options["preexec_fn"] = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(**options, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "turn_complete":
                break
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == ""
    summary = json.loads(rest)
    assert summary["interrupted"]
    assert summary["ok"]
    assert [call["status"] for call in summary["calls"]] == ["ok"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "demmo"],
            "There is no scenario 'demmo': did you mean 'demo'? name a YAML file, or one of ",
        ),
        (
            ["run", "--config", "none.yaml"],
            "leonidas: none.yaml: there is no such file: correct the path, or create it",
        ),
        (
            ["tools", "show", "get_wether"],
            "did you mean 'get_weather'? `leonidas tools list` lists them",
        ),
    ],
)
def test_a_mistake_of_the_user_is_one_line_and_ends_with_2(leonidas, arguments, message):
    finished = leonidas(*arguments)
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert message in finished.stderr.splitlines()[-1]
    assert "Traceback" not in finished.stderr


@pytest.mark.slow
def test_help_names_every_command(started):
    finished = started("--help")
    assert finished.returncode == 0
    for name in ("run", "tools", "config", "mcp"):
        assert f"\n  {name} " in finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["", "Hello?\n"])
def test_a_session_that_never_connects_fails_and_shows_why(leonidas, settings, typed):
    with LiveSimulator(Scenario()) as simulator:
        variables = simulator.environment()
        variables["GOOGLE_GEMINI_BASE_URL"] += "/nowhere"
        finished = leonidas("run", "--config", settings, stdin=typed, **variables)
    assert finished.returncode == 1
    assert "refused     " in finished.stdout
    assert "passed" not in finished.stdout
    assert "\n✗ " in finished.stdout


@pytest.mark.slow
def test_a_closed_pipe_ends_the_program_quietly(command, environment, settings, scenario):
    steps = [{"say": f"Sentence {number}."} for number in range(50)]
    options = command(environment)
    options["args"] += ["run", str(scenario(*steps)), "--speed", "0", "--config", str(settings)]
    with subprocess.Popen(**options, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_scenarios_that_ship_play_with_the_settings_that_ship(leonidas, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tools.yaml").write_text("version: 1\n")
    finished = leonidas("run", "tools_change", "--speed", "0")
    assert finished.returncode == 0, finished.stdout
    assert finished.stdout.endswith("; passed\n")
    assert finished.stderr.startswith(
        "Scenarios that ship play with settings of their own: for config/tools.yaml, "
        "add --config config/tools.yaml\n"
    )


@pytest.mark.slow
def test_a_scenario_says_what_it_needs(leonidas, settings, tmp_path):
    file = tmp_path / "needy.yaml"
    file.write_text("name: Needy\nneeds: a shop\nsteps: [{call: {name: buy}}]\n")
    finished = leonidas("run", file, "--config", settings)
    assert finished.returncode == 1
    assert "\n✗ the scenario needs a shop\n" in finished.stdout


@pytest.mark.slow
def test_a_scenario_speaks_while_a_tool_runs(leonidas, settings, scenario):
    flights = {
        "id": "it",
        "name": "search_flights",
        "args": {"origin": "Lisbon", "destination": "Porto"},
    }
    file = scenario(
        {"call": flights},
        {"wait_for_progress": "search_flights"},
        {"interrupt": {"cancel": True}},
        "turn_complete",
    )
    finished = leonidas("run", file, "--speed", "0", "--json", "--config", settings)
    assert finished.returncode == 0, finished.stdout
    assert [each["status"] for each in events(finished)[-1]["calls"]] == ["cancelled"]


@pytest.mark.slow
def test_each_scenario_after_the_first_has_a_title(leonidas, settings, scenario):
    file = scenario({"say": "Hello."}, "turn_complete")
    finished = leonidas("run", file, file, "--speed", "0", "--config", settings)
    assert finished.stdout.count("\n\n— Small —\n    0.00  session ") == 1


@pytest.mark.slow
def test_ctrl_c_while_a_tool_runs_ends_with_130_and_no_complaint(
    command, environment, tmp_path, scenario
):
    (tmp_path / "slow.py").write_text(
        "import asyncio\nfrom leonidas_tools import tool\n"
        "@tool\nasync def slow() -> None:\n    await asyncio.sleep(60)\n"
    )
    settings = tmp_path / "slow.yaml"
    settings.write_text("version: 1\ntoolboxes: [slow]\n")
    file = scenario({"call": {"id": "1", "name": "slow"}}, "wait_for_answers")
    options = command(environment)
    options["args"] += ["run", str(file), "--config", str(settings)]
    options["preexec_fn"] = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(**options, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "called      slow" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out.endswith("\n1 call: 0 answered once, 0 cancelled, 1 unanswered; interrupted\n")
    assert "✗ '" not in out


@pytest.mark.slow
def test_a_person_has_more_time_to_type_than_a_scenario_gives(
    command, environment, scenario, settings
):
    wait = {"wait_for_input": {"kind": "text", "within_seconds": 0.001}}
    file = scenario(wait, {"say": {"text": "Thank you."}}, "turn_complete")
    options = command(environment)
    options["args"] += ["run", str(file), "--config", str(settings)]
    ours, theirs = pty.openpty()
    with (
        subprocess.Popen(**options, stdin=theirs, stdout=subprocess.PIPE) as process,
        os.fdopen(ours, "wb", buffering=0) as terminal,
    ):
        os.close(theirs)
        assert "type it" in process.stdout.readline()
        terminal.write(b"Hello\n")
        shown = process.stdout.read()
    assert process.returncode == 0, shown
    assert "Thank you." in shown


@pytest.mark.slow
def test_a_scenario_that_waits_in_vain_names_what_it_waited_for_and_how_long(leonidas, scenario):
    wait = {"wait_for_input": {"kind": "text", "within_seconds": 0.01}}
    shown = leonidas("run", scenario(wait)).stdout
    assert "within 0.01 s (within_seconds)" in shown


@pytest.mark.parametrize("how", [["--debug"], []])
def test_debug_shows_the_traceback_of_a_tool_and_the_model_never_reads_it(leonidas, tmp_path, how):
    (tmp_path / "faulty.py").write_text(
        "from leonidas_tools import tool\n@tool\ndef fail() -> None:\n"
        "    raise OSError('pin 1234')\n"
    )
    settings = tmp_path / "faulty.yaml"
    settings.write_text("version: 1\ntoolboxes: [faulty]\n")
    variables = {} if how else {"LEONIDAS_DEBUG": "1"}
    shown = leonidas(*how, "tools", "call", "fail", "--config", settings, **variables)
    plain = leonidas("tools", "call", "fail", "--config", settings)
    assert 'faulty.py", line 4, in fail' in shown.stderr
    assert "OSError: pin 1234" in shown.stderr
    assert "Traceback" not in plain.stderr
    assert plain.stderr.rstrip().endswith("LEONIDAS_DEBUG=1 shows the traceback")
    assert "shows the traceback" not in shown.stderr
    assert "1234" not in plain.stderr + plain.stdout + shown.stdout


@pytest.mark.slow
@pytest.mark.parametrize("group", ["", "mcp", "history", "policy", "tools"])
def test_the_help_shows_the_summary_of_each_command_whole(leonidas, group):
    shown = leonidas(*group.split(), "-h").stdout.partition("Commands:")[2]
    assert shown
    assert "..." not in shown


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("-h",), ("tools", "-h"), ("run", "-h")])
def test_help_has_a_short_option(leonidas, arguments):
    assert leonidas(*arguments).stdout.startswith("Usage: ")


def test_the_version_is_that_of_the_package(leonidas):
    assert leonidas("--version").stdout == f"leonidas {version('leonidas-tools')}\n"


def test_the_working_directory_is_not_imported_from(started, tmp_path):
    for name in ("typer", "snappy", "rich", "yaml"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from here')\n")
    assert started("--version").stdout == f"leonidas {version('leonidas-tools')}\n"
    assert started("config", "check").returncode == 0
