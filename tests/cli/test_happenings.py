import json

import pytest
from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools.cli.display import JsonLines, Lines
from leonidas_tools.cli.happenings import Happening, HappeningListener
from leonidas_tools.live.live_events import live_event


def said(*words):
    listener = HappeningListener()
    parts = [ProcessorPart(text, substream_name=f"{who}_transcription") for who, text in words]
    heard = [each for part in parts for each in listener.receive(part)] + [*listener.pause()]
    return [(each.data["who"], each.data["text"]) for each in heard]


def test_words_become_sentences():
    assert said(("output", "It"), ("output", " is"), ("output", " nine."), ("output", "")) == [
        ("agent", "It is nine.")
    ]


def test_a_sentence_ends_where_a_new_one_begins():
    assert said(("output", "Well."), ("output", " It is"), ("output", " 9"), ("output", ".5.")) == [
        ("agent", "Well."),
        ("agent", "It is 9.5."),
    ]


def test_the_other_speaker_ends_a_sentence():
    assert said(("output", "I am look"), ("input", "No, leave"), ("input", " it.")) == [
        ("agent", "I am look"),
        ("user", "No, leave it."),
    ]


def test_an_interruption_ends_a_sentence():
    listener = HappeningListener()
    parts = [
        ProcessorPart("I am", substream_name="output_transcription"),
        ProcessorPart("", metadata={"interrupted": True}),
    ]
    heard = [each for part in parts for each in listener.receive(part)]
    assert [each.kind for each in heard] == ["said", "interrupted"]


CALL = ProcessorPart(
    types.Part(function_call=types.FunctionCall(id="c1", name="search", args={})), role="model"
)
ANSWER = ProcessorPart(
    types.Part(
        function_response=types.FunctionResponse(id="c1", name="search", response={"status": "ok"})
    ),
    role="user",
)
OPENED = live_event("connection_opened", connection=1, resumed=False, audio_dropped=0)
LOST = live_event("connection_lost", code=1006, reason="gone")
RENEWED = live_event("connection_renewed", connection=2, resumed=True, audio_dropped=3)


def heard(*parts, declared=frozenset):
    listener = HappeningListener(lambda: 0.0, declared=declared)
    return [(each.kind, dict(each.data)) for part in parts for each in listener.receive(part)]


@pytest.mark.parametrize(
    ("parts", "late"),
    [
        ([OPENED, CALL, ANSWER], False),
        ([OPENED, CALL, LOST, ANSWER, RENEWED], True),
        ([OPENED, CALL, LOST, RENEWED, ANSWER], True),
        ([OPENED, LOST, RENEWED, CALL, ANSWER], False),
    ],
)
def test_an_answer_that_its_connection_does_not_get_is_marked(parts, late):
    answered = next(data for kind, data in heard(*parts) if kind == "answered")
    assert answered.get("after_reconnect", False) is late


def test_events_of_the_connection_are_reported():
    assert heard(OPENED, LOST, RENEWED, live_event("malformed_function_call")) == [
        ("connection_opened", {"connection": 1, "resumed": False, "audio_dropped": 0}),
        ("connection_lost", {"code": 1006, "reason": "gone"}),
        ("connection_renewed", {"connection": 2, "resumed": True, "audio_dropped": 3}),
        ("malformed_function_call", {}),
    ]


def test_tools_that_came_and_went_are_named_also_where_a_new_connection_declares_them():
    sets = [{"add", "think"}, {"add", "coin"}, {"coin"}]
    parts = [live_event("tools_changed", tools=["add", "coin"]), RENEWED]
    changes = [
        data for kind, data in heard(*parts, declared=lambda: sets.pop(0)) if "tools" in kind
    ]
    assert changes == [
        {"added": ["coin"], "removed": ["think"]},
        {"added": [], "removed": ["add"]},
    ]


@pytest.mark.parametrize(
    ("kind", "data", "line"),
    [
        (
            "connection_opened",
            {"connection": 1, "resumed": False, "audio_dropped": 0},
            "connected   connection 1",
        ),
        (
            "connection_renewed",
            {"connection": 2, "resumed": True, "audio_dropped": 3},
            "renewed     connection 2, the session is resumed, 3 audio frames were dropped",
        ),
        (
            "connection_lost",
            {"code": 1006, "reason": ""},
            "lost        1006; a new connection follows",
        ),
        ("tools_changed", {"added": ["coin"], "removed": ["add"]}, "tools       +coin -add"),
        (
            "malformed_function_call",
            {},
            "malformed   the model has made a call that cannot be read",
        ),
        ("go_away", {"time_left": "5s"}, "go_away     the server ends the connection in 5s"),
        (
            "approval_request",
            {"tool": "pay", "rule": "much money"},
            "asked       pay: the rule 'much money' requires approval",
        ),
        (
            "approval_answer",
            {"tool": "pay", "decision": "approve", "by": "voice"},
            "approved    pay, by voice",
        ),
        (
            "approval_answer",
            {"tool": "pay", "decision": "cancel", "by": "expiry"},
            "denied      pay, by expiry (cancel)",
        ),
        (
            "approval_answer",
            {"tool": "pay", "decision": "audit", "by": "rule", "rule": "autonomous"},
            "decided     pay, by the rule 'autonomous' (audit)",
        ),
        (
            "answered",
            {"tool": "pay", "seconds": 0.25, "response": {"status": "ok", "result": {}}},
            "answered    pay: ok in 250 ms",
        ),
        (
            "answered",
            {
                "tool": "search",
                "seconds": 0.001,
                "response": {"status": "ok", "result": [1], "message": "Again."},
                "cached": True,
            },
            "cached      search: ok in 1 ms Again. [1]",
        ),
        (
            "progress",
            {"tool": "search", "filler": True, "message": "One moment."},
            'progress    search: fills the silence: "One moment."',
        ),
        (
            "progress",
            {"tool": "search", "filler": True, "message": None},
            "progress    search: fills the silence",
        ),
    ],
)
def test_every_event_has_its_line_and_its_object(capsys, kind, data, line):
    happening = Happening(kind=kind, at_seconds=1.5, data=data)
    Lines().show(happening)
    assert capsys.readouterr().out == f"    1.50  {line}\n"
    JsonLines().show(happening)
    assert json.loads(capsys.readouterr().out) == {"event": kind, "at": 1.5, **data}
