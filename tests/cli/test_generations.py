"""Profiles, models and generations of `leonidas run`."""

import json

import pytest
import yaml

from leonidas_tools.cli.generations import GENERATIONS, generation_for, model_of
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.live.profiles import profile_for
from leonidas_tools.simulator import (
    Call,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)

pytestmark = pytest.mark.slow

ASKED = [
    WaitForInput("text"),
    Call.one("get_weather", {"city": "Lisbon"}, id="weather"),
    WaitForAnswers(),
    Say("It is foggy."),
    TurnComplete(),
]


def events(finished):
    return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.mark.slow
def test_every_profile_has_a_scenario_that_plays(leonidas, settings):
    finished = leonidas(
        *("run", "--profile", "all", "--json", "--speed", "inf", "--config", settings)
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    told = events(finished)
    profiles = [event["profile"] for event in told if event["event"] == "session"]
    assert profiles == [generation.profile for generation in GENERATIONS]
    summaries = [event for event in told if event["event"] == "summary"]
    assert [(each["ok"], each["violations"], each["problems"]) for each in summaries] == (
        [(True, 0, [])] * len(GENERATIONS)
    )
    assert {each["connections"] for each in summaries} == {2}
    assert sum(each["survived"] for each in summaries) > 0
    late = [event for event in told if event.get("after_reconnect")]
    assert len(late) == sum(each["survived"] for each in summaries)


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda each: each.profile)
def test_the_model_of_a_profile_has_that_profile(generation):
    assert profile_for(generation.model, vertex=generation.vertex).name == generation.profile


@pytest.mark.parametrize("vertex", [False, True])
def test_the_default_model_fits_the_backend(vertex):
    assert profile_for(model_of(None, vertex=vertex), vertex=vertex).name != "unknown"


def test_a_scenario_names_its_generation_and_goes_before_the_profile():
    made = Scenario([], generation="3.1")
    assert generation_for(made, "3.8-live").profile == "3.1-flash-live"
    assert generation_for(Scenario([]), "3.8-live").server == "3.8-live"
    assert generation_for(Scenario([]), None).server is None


def test_a_scenario_of_no_known_generation_is_refused():
    with pytest.raises(ConfigurationError, match=r"generation '9'; known are '2\.5', "):
        generation_for(Scenario([], generation="9"), None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--profile", "3.1-flsh-live"],
            "there is no profile '3.1-flsh-live'; did you mean '3.1-flash-live'? There are ",
        ),
        (
            ["--profile", "vertex-3.8-extended-thinking"],
            "no model and no scenario are known for the profile 'vertex-3.8-extended-thinking': ",
        ),
    ],
)
def test_an_unsuitable_profile_is_reported_in_a_line_and_ends_with_2(
    leonidas, settings, options, message
):
    finished = leonidas("run", "--config", settings, *options)
    assert finished.returncode == 2
    assert finished.stderr.startswith(f"leonidas: {message}")
    assert len(finished.stderr.splitlines()) == 1
    assert finished.stdout == ""


def test_a_real_session_takes_the_profile_that_is_named(leonidas, settings):
    with LiveSimulator(Scenario(ASKED), generation="3.8-thinking") as simulator:
        finished = leonidas(
            *("run", "--json", "--config", settings, "--profile", "3.8-live-extended-thinking"),
            stdin="How is the weather in Lisbon?\n",
            **simulator.environment(),
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        (setup,) = simulator.setups
        assert simulator.violations == ()
    assert setup["model"] == "models/gemini-3.8-live-extended-thinking"
    declared = setup["tools"][0]["functionDeclarations"]
    assert {one.get("behavior") for one in declared} <= {None, "NON_BLOCKING"}


def test_the_environment_leads_to_vertex(leonidas, settings):
    with LiveSimulator(Scenario(ASKED), generation="vertex") as simulator:
        variables = simulator.environment()
        finished = leonidas(
            *("run", "--json", "--config", settings),
            stdin="How is the weather in Lisbon?\n",
            **variables,
            GOOGLE_VERTEX_BASE_URL=variables["GOOGLE_GEMINI_BASE_URL"],
            GOOGLE_API_KEY="simulated",
            GOOGLE_GENAI_USE_VERTEXAI="true",
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        (setup,) = simulator.setups
        assert simulator.violations == ()
    assert setup["model"].endswith("models/gemini-live-2.5-flash-native-audio")
    told = events(finished)
    assert told[0]["text"].startswith("Gemini Live on Vertex AI, gemini-live-2.5-flash-")
    assert [call["status"] for call in told[-1]["calls"]] == ["ok"]


def test_vertex_without_a_project_is_reported_in_a_line_and_ends_with_2(
    leonidas, settings, tmp_path
):
    finished = leonidas(
        *("run", "--config", settings),
        GOOGLE_GENAI_USE_VERTEXAI="true",
        GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "none.json"),
    )
    assert finished.returncode == 2
    assert finished.stderr.startswith("leonidas: ")
    assert "Traceback" not in finished.stderr


@pytest.fixture
def scenario(tmp_path):
    def write(**content):
        file = tmp_path / "scenario.yaml"
        file.write_text(yaml.safe_dump({"name": "Small", **content}))
        return file

    return write


def test_what_is_typed_goes_to_a_scenario_that_waits_for_it_a_line_a_turn(
    leonidas, settings, scenario
):
    file = scenario(
        steps=[
            {"wait_for_input": {"kind": "text", "containing": "one"}},
            {"say": "Thank you."},
            "turn_complete",
            {"wait_for_input": {"kind": "text", "containing": "two"}},
            {"say": "Thank you, too."},
            "turn_complete",
        ]
    )
    finished = leonidas("run", file, "--json", "--config", settings, stdin="one\ntwo\n")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    told = events(finished)
    assert told[0]["text"].endswith("; it waits for text: type it")
    said = [event["text"] for event in told if event["event"] == "said"]
    assert said == ["one", "Thank you.", "two", "Thank you, too."]


@pytest.mark.parametrize("name", ["gemini_3_1", "gemini_3_8_live"])
def test_typing_is_not_announced_where_only_a_late_result_is_awaited(leonidas, name):
    finished = leonidas("run", name, "--speed", "0", "--json", stdin="Hello?\n")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    happened = events(finished)
    assert "type" not in happened[0]["text"]
    assert "Hello?" not in [event.get("text") for event in happened]


def test_a_call_that_outlives_its_connection_counts_as_answered(
    leonidas, settings, scenario, tmp_path
):
    (tmp_path / "slow_tools.py").write_text(
        "import asyncio\n"
        "from leonidas_tools import tool\n"
        "@tool(effect='read')\n"
        "async def look_up() -> str:\n"
        "    '''Looks something up.'''\n"
        "    await asyncio.sleep(1)\n"
        "    return 'found'\n"
    )
    settings.write_text("version: 1\ntoolboxes: [slow_tools]\n")
    file = scenario(
        connections=[
            [
                {"session_resumption": "h1"},
                {"call": {"id": "lookup", "name": "look_up"}},
                {"pause": 0.2},
                "drop",
            ],
            [
                {"wait_for_input": {"kind": "text", "containing": "found"}},
                {"say": "Found."},
                "turn_complete",
            ],
        ]
    )
    finished = leonidas("run", file, "--config", settings)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "lost        1006 " in finished.stdout
    assert "renewed     connection 2, the session is resumed\n" in finished.stdout
    assert "sent after the reconnect found\n" in finished.stdout
    assert finished.stdout.endswith(
        "\n1 call: 1 answered once, 0 cancelled; 2 connections, 1 call outlived its own; passed\n"
    )
    assert finished.stderr == ""


def test_tools_come_and_go_while_the_model_talks(leonidas, settings):
    finished = leonidas("run", "tools_change", "--json", "--config", settings)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    changes = [event for event in events(finished) if event["event"] == "tools_changed"]
    assert [(each["added"], each["removed"]) for each in changes] == [
        (["flip_coin"], []),
        ([], ["flip_coin"]),
    ]
