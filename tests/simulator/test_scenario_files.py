"""Scenarios in YAML: what they mean, and what is said of a wrong one."""

import inspect
import math
import wave
from dataclasses import fields
from pathlib import Path

import pytest

from leonidas_tools.calls.call import ResultStatus
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.simulator import (
    Call,
    Cancel,
    Close,
    Drop,
    Expect,
    ExpireHandles,
    FunctionCall,
    GoAway,
    GoSilent,
    Interrupt,
    LiveSimulator,
    Pause,
    RefuseConnections,
    Say,
    Scenario,
    Send,
    SimulatedSession,
    StallPongs,
    StopListening,
    TurnComplete,
    Usage,
    WaitForAnswers,
    WaitForClose,
    WaitForContextUpdate,
    WaitForInput,
    WaitForProgress,
)
from leonidas_tools.simulator.steps import STEPS

pytestmark = pytest.mark.slow

SHIPPED = Path(__file__).parents[2] / "config" / "scenarios"


@pytest.fixture
def load(tmp_path):
    def load(text):
        file = tmp_path / "scenario.yaml"
        file.write_text(text, encoding="utf-8")
        return Scenario.load(file)

    return load


def test_every_short_form_is_understood(load):
    scenario = load("""
name: All
description: Everything.
generation: 3.8-live
steps:
  - say: Hello
  - say: {text: Hello, audio_seconds: 1, paced: true}
  - call: {name: f, id: c1}
  - call: [{name: f, id: c2, args: {a: 1}}, {name: g, id: null, args: null, undeclared: true}]
  - call: {calls: [{name: f}], in_model_turn: true}
  - wait_for_answers
  - wait_for_answers: c1
  - wait_for_answers: {ids: [c1, call-4], within_seconds: 2}
  - expect: c1
  - expect: {id: c1, status: ok, response: {a: {b: 1}}}
  - wait_for_input: text
  - wait_for_input: {kind: audio, count: 3}
  - cancel: c1
  - cancel: [c1, c2]
  - turn_complete
  - usage: {totalTokenCount: 3}
  - go_away: 9.5
  - go_away: {time_left_seconds: 5, close: true}
  - interrupt: {cancel: true}
  - turn_complete: {reason: NEED_MORE_INPUT, interaction_status: IDLE, within_seconds: 3}
  - wait_for_context_update
  - wait_for_context_update: {declaring: f, within_seconds: 2}
  - wait_for_progress: f
  - wait_for_progress: {tool: f, within_seconds: 2}
  - wait_for_close: {within_seconds: 3}
  - expire_handles
  - stall_pongs: 30
  - go_silent
  - refuse_connections: 2
  - refuse_connections: {http_status: 503, reason: later}
  - stop_listening: 1
  - pause: 1
  - close: {code: 1011, reason: sorry}
  - drop
""")
    assert scenario == Scenario(
        (
            Say("Hello"),
            Say("Hello", audio_seconds=1.0, paced=True),
            Call((FunctionCall("f", id="c1"),)),
            Call(
                (
                    FunctionCall("f", {"a": 1}, id="c2"),
                    FunctionCall("g", None, id=None, undeclared=True),
                )
            ),
            Call((FunctionCall("f"),), in_model_turn=True),
            WaitForAnswers(),
            WaitForAnswers(("c1",)),
            WaitForAnswers(("c1", "call-4"), within_seconds=2.0),
            Expect("c1"),
            Expect("c1", status="ok", response={"a": {"b": 1}}),
            WaitForInput("text"),
            WaitForInput("audio", count=3),
            Cancel(("c1",)),
            Cancel(("c1", "c2")),
            TurnComplete(),
            Usage({"totalTokenCount": 3}),
            GoAway(9.5),
            GoAway(5.0, close=True),
            Interrupt(cancel=True),
            TurnComplete("NEED_MORE_INPUT", interaction_status="IDLE", within_seconds=3.0),
            WaitForContextUpdate(),
            WaitForContextUpdate("f", within_seconds=2.0),
            WaitForProgress("f"),
            WaitForProgress("f", within_seconds=2.0),
            WaitForClose(within_seconds=3.0),
            ExpireHandles(),
            StallPongs(30.0),
            GoSilent(),
            RefuseConnections(2),
            RefuseConnections(http_status=503, reason="later"),
            StopListening(1.0),
            Pause(1.0),
            Close(1011, reason="sorry"),
            Drop(),
        ),
        name="All",
        description="Everything.",
        generation="3.8-live",
    )


def test_connections_and_raw_messages_are_understood(load):
    scenario = load("""
connections:
  - [{send: {goAway: {}}}, {send: "not JSON"}, {wait_for_answers: raw}]
  - [turn_complete]
""")
    assert scenario == Scenario(
        connections=[
            (Send({"goAway": {}}), Send("not JSON"), WaitForAnswers(("raw",))),
            (TurnComplete(),),
        ],
        name="scenario",
    )


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        ("", None, None, "A scenario must be a mapping"),
        ("[", 1, None, "This is not YAML"),
        ("- drop", 1, None, "write `steps:` above the list"),
        (
            "steps:\n- call: {name: f}\n- expect: ok",
            3,
            "steps[1]",
            "No call has the id 'ok': write `expect: {id: …, status: ok}`",
        ),
        (
            "steps:\n- call: {id: c, name: f}\n- expect: {id: c, result: 4}",
            3,
            "steps[1].expect.result",
            "did you mean 'response'? Choose from id, status, ",
        ),
        ("step: []", 1, "step", "did you mean 'steps'?"),
        ("name: x", 1, None, "either `steps` or `connections`"),
        ("steps: []\nconnections: []", 1, None, "either `steps` or `connections`"),
        ("connections: 3", 1, "connections", "a list with a list of steps"),
        ("steps: 3", 1, "steps", "Steps must be a list"),
        ("steps: []", 1, "steps", "There are no steps"),
        ("connections: [[]]", 1, "connections[0]", "There are no steps"),
        (
            "steps:\n- call: {id: c1, name: f}\n- expect: {id: c1, status: okay}",
            3,
            "steps[1].expect.status",
            "no status 'okay'; did you mean 'ok'? Choose from ok, no_results, invalid_argument,",
        ),
        (
            "steps: [drop]\ngeneration: 3",
            2,
            "generation",
            "no generation '3'; choose from 2.5, 3.1,",
        ),
        ("steps:\n- wait_for_close: 3", 2, "steps[0].wait_for_close", "a mapping with within_sec"),
        (
            "steps:\n- say: {text: a, audio: a.wav}",
            2,
            "steps[0].say.audio",
            "'a.wav' is not a readable WAV file",
        ),
        ("steps:\n- say: a\n- sya: b", 3, "steps[1].sya", "did you mean 'say'?"),
        ("steps:\n- say: a\n  drop:", 2, "steps[0]", "a mapping of one name to its value"),
        ("steps:\n- 3", 2, "steps[0]", "a mapping of one name to its value"),
        ("steps:\n- interrupt: 3", 2, "steps[0].interrupt", "write only its name"),
        (
            "steps:\n- user: hello",
            2,
            "steps[0].user",
            "'user' is not known here; did you mean 'input_transcription'? Choose from say, call, ",
        ),
        ("steps:\n- user: hello", 2, "steps[0].user", ", input_transcription, "),
        (
            "steps:\n- call: {id: yes, name: f}",
            2,
            "steps[0].call.id",
            "True should be text: put it in quotes",
        ),
        ("steps:\n- say: {paced: true}", 2, "steps[0].say", "'text' is missing"),
        ("steps:\n- say: {text: a, pased: 1}", 2, "steps[0].say.pased", "did you mean 'paced'?"),
        ("steps:\n- pause: soon", 2, "steps[0].pause.seconds", "should be a number, such as 2"),
        ("steps:\n- wait: 2", 2, "steps[0].wait", "did you mean 'pause'?"),
        ("steps:\n- assert: c1", 2, "steps[0].assert", "did you mean 'expect'?"),
        ("steps:\n- pause: -1", 2, "steps[0].pause.seconds", "greater than or equal to 0"),
        ("steps:\n- close: 3", 2, "steps[0].close.code", "greater than or equal to 1000"),
        ("steps:\n- call: f", 2, "steps[0].call", "A call must be a mapping"),
        ("steps:\n- call:\n  - {nam: f}", 3, "steps[0].call[0].nam", "did you mean 'name'?"),
        ("steps:\n- call:\n    id: c1", 2, "steps[0].call", "'name' is missing"),
        (
            "steps:\n- call:\n    name: f\n    args: [1]",
            4,
            "steps[0].call.args",
            "valid dictionary",
        ),
        (
            "steps:\n- call: {name: f, id: flight}\n- cancel: flights",
            3,
            "steps[1]",
            "did you mean 'flight'?",
        ),
        ("steps:\n- say: '{answers.c1.a}'", 2, "steps[0]", "No call has the id 'c1'"),
        ("steps:\n- say: '{answer.c1.a}'", 2, "steps[0].say", "only {answers.ID.KEY}"),
    ],
)
def test_a_wrong_file_is_refused_by_line_and_key(load, text, line, key, message):
    with pytest.raises(ConfigurationError) as raised:
        load(text)
    assert (raised.value.line, raised.value.key) == (line, key)
    assert message in raised.value.message
    assert raised.value.file.endswith("scenario.yaml")


def test_a_generation_may_be_written_as_a_number(load):
    assert load("steps: [drop]\ngeneration: 3.1").generation == "3.1"


def test_a_recording_is_found_beside_the_file(load, tmp_path):
    with wave.open(str(tmp_path / "hello.wav"), "wb") as sound:
        sound.setparams((1, 2, 24_000, 0, "NONE", ""))
        sound.writeframes(bytes(4800))
    (step,) = load("steps: [{say: {text: hello, audio: hello.wav}}]").steps
    assert step == Say("hello", audio=tmp_path / "hello.wav")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"gone\.yaml: there is no such file"):
        LiveSimulator(tmp_path / "gone.yaml")


@pytest.mark.parametrize("status", ResultStatus)
def test_every_status_of_an_answer_may_be_expected(load, status):
    text = f"steps: [call: {{id: c1, name: f}}, expect: {{id: c1, status: {status}}}]"
    assert load(text).steps[1] == Expect("c1", status=status.value)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: Scenario("scenario.yaml"), r"Scenario\.load\('scenario\.yaml'\)"),
        (lambda: Scenario([Drop]), "is not a step"),
        (lambda: Scenario(connections=[["drop"]]), "'drop' is not a step"),
        (lambda: Call("get_weather"), r"Call\.one\('get_weather'\)"),
    ],
)
def test_what_is_no_scenario_is_refused_when_it_is_made(make, advice):
    with pytest.raises(TypeError, match=advice):
        make()


PLAIN_STEPS = [kind for kind in STEPS.values() if "play" not in vars(kind)]


@pytest.mark.parametrize("kind", PLAIN_STEPS)
def test_a_step_has_the_arguments_of_the_sessions_method(kind):
    method = inspect.signature(getattr(SimulatedSession, kind.step_name()))
    given = {each.name: each.default for each in fields(kind)}
    assert list(method.parameters)[1:] == list(given)


# Whose tools change while it plays, or ask first, takes a whole agent: tests/cli plays it.
WHOLE_AGENT = {"approval", "policies", "tools_change"}
FILES = {file.stem: file for file in sorted(SHIPPED.glob("*.yaml")) if file.stem not in WHOLE_AGENT}
GENERATIONS = {
    "gemini_2_5": "2.5",
    "gemini_3_1": "3.1",
    "gemini_3_8_live": "3.8-live",
    "gemini_3_8_thinking": "3.8-thinking",
    "vertex": "vertex",
    "vertex_3_8": "vertex-3.8",
}


@pytest.mark.parametrize("name", FILES)
async def test_a_shipped_scenario_plays_to_its_end(name, model_client):
    async with LiveSimulator(FILES[name], speed=math.inf) as simulator:
        assert (await model_client(simulator).play()).ok
    assert simulator.violations == ()
    unanswered = {call.name for call in simulator.calls if not call.answered_once}
    assert unanswered <= {"search_flights"}
    assert {call.name for call in simulator.calls if call.cancelled} <= {"search_flights"}


def test_there_is_a_scenario_for_each_generation():
    found = {name: Scenario.load(FILES[name]).generation for name in GENERATIONS}
    assert found == GENERATIONS


@pytest.mark.parametrize("name", GENERATIONS)
async def test_the_session_of_a_generation_goes_on_on_a_second_connection(name, model_client):
    async with LiveSimulator(FILES[name], speed=math.inf) as simulator:
        assert (await model_client(simulator).play()).ok
    assert [each.resumed_from for each in simulator.connections] == [None, 1]
    has_late_result = name in {"gemini_3_1", "gemini_3_8_live", "vertex_3_8"}
    late = ["search_flights: {'cheapest': 640}"] if has_late_result else []
    assert [each.text for each in simulator.texts_received] == late
