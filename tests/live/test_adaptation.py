"""Declarations and answers, as each generation takes them."""

import logging

import pytest
from google.genai import types

from leonidas_tools.live.adaptation import Adaptation
from leonidas_tools.live.profiles import find_profile, load_profiles

B, N = "BLOCKING", "NON_BLOCKING"


def adapted(name: str) -> Adaptation:
    return Adaptation(find_profile(name))


def function(name: str, behavior: str | None = None) -> types.FunctionDeclaration:
    return types.FunctionDeclaration(name=name, description="…", behavior=behavior)


def tool(*functions: types.FunctionDeclaration) -> types.Tool:
    return types.Tool(function_declarations=list(functions))


def declared(adaptation: Adaptation) -> tuple[list[str | None], list[bool]]:
    """What becomes of a function that says nothing, of a BLOCKING and of a NON_BLOCKING one."""
    [given] = adaptation.declarations([tool(function("a"), function("b", B), function("n", N))])
    fields = [d.behavior and d.behavior.value for d in given.function_declarations]
    return fields, [adaptation.is_blocking(name) for name in "abn"]


def answer(name: str, scheduling: str | None = None, **fields) -> types.FunctionResponse:
    return types.FunctionResponse(
        id="1", name=name, response={"status": "ok"}, scheduling=scheduling, **fields
    )


def sent(adaptation: Adaptation, response: types.FunctionResponse, **options) -> tuple:
    given = adaptation.response(response, **options)
    return given.scheduling and given.scheduling.value, given.will_continue


@pytest.mark.parametrize(
    ("profile", "fields", "blocking"),
    [
        ("2.5-native-audio", [None, B, N], [True, True, False]),
        ("3.1-flash-live", [None, None, None], [True, True, True]),
        ("3.8-live", [N, B, N], [False, True, False]),
        ("3.8-live-extended-thinking", [N, N, N], [False, False, False]),
        ("vertex-2.5", [None, None, None], [True, True, True]),
        ("vertex-3.8", [N, B, N], [False, True, False]),
        ("unknown", [None, None, None], [True, True, True]),
    ],
)
def test_a_declaration_says_only_what_the_model_takes(profile, fields, blocking):
    assert declared(adapted(profile)) == (fields, blocking)


def test_no_model_is_asked_for_a_behavior_that_it_does_not_know():
    for profile in load_profiles():
        fields, _ = declared(Adaptation(profile))
        known = {b.value for b in profile.behaviors} if profile.behavior_field else set()
        assert {field for field in fields if field} <= known, profile.name


def test_native_tools_pass_and_what_was_given_stays_as_it_was():
    search = types.Tool(google_search=types.GoogleSearch())
    mixed = types.Tool(google_search=types.GoogleSearch(), function_declarations=[function("n", N)])
    before = mixed.model_copy(deep=True)

    given = adapted("3.1-flash-live").declarations([search, mixed])

    assert given == [
        search,
        types.Tool(google_search=types.GoogleSearch(), function_declarations=[function("n")]),
    ]
    assert mixed == before


def test_an_unspecified_behavior_is_the_models_own():
    adaptation = adapted("3.8-live")
    adaptation.declarations([tool(function("u", "UNSPECIFIED"))])

    assert not adaptation.is_blocking("u")


def test_of_an_undeclared_function_the_default_counts():
    assert adapted("2.5-native-audio").is_blocking("nobody")
    assert not adapted("3.8-live").is_blocking("nobody")


def test_a_function_no_longer_declared_may_have_running_calls():
    adaptation = adapted("3.8-live")
    adaptation.declarations([tool(function("a", B))])
    adaptation.declarations([tool(function("c", B))], update=True)

    assert [adaptation.is_blocking(name) for name in "ac"] == [True, True]
    assert sent(adaptation, answer("a", "INTERRUPT")) == (None, None)


def test_new_declarations_replace_the_old():
    adaptation = adapted("3.8-live")
    adaptation.declarations([tool(function("a", B))])
    adaptation.declarations([tool(function("c", B))])

    assert [adaptation.is_blocking(name) for name in "ac"] == [False, True]


@pytest.mark.parametrize(
    ("profile", "name", "asked", "expected"),
    [
        ("2.5-native-audio", "n", "SILENT", "SILENT"),
        ("2.5-native-audio", "n", None, None),
        ("2.5-native-audio", "b", "SILENT", None),
        ("2.5-native-audio", "a", "SILENT", None),
        ("3.1-flash-live", "n", "SILENT", None),
        ("3.8-live", "a", "WHEN_IDLE", "WHEN_IDLE"),
        ("3.8-live", "b", "WHEN_IDLE", None),
        ("3.8-live-extended-thinking", "a", None, None),
        ("3.8-live-extended-thinking", "b", None, None),
        ("3.8-live-extended-thinking", "b", "WHEN_IDLE", None),
        ("vertex-2.5", "n", "SILENT", None),
        ("unknown", "n", "SILENT", None),
    ],
)
def test_an_answer_is_scheduled_only_where_that_means_something(profile, name, asked, expected):
    adaptation = adapted(profile)
    declared(adaptation)

    assert sent(adaptation, answer(name, asked)) == (expected, None)


def test_a_call_with_interim_answers_is_closed():
    adaptation = adapted("3.8-live")

    given = [
        sent(adaptation, answer("a", "SILENT"), final=False),
        sent(adaptation, answer("a", "SILENT", will_continue=True)),
        sent(adaptation, answer("a", "WHEN_IDLE"), begun=True),
        sent(adaptation, answer("a", "WHEN_IDLE")),
    ]

    assert given == [("SILENT", True), ("SILENT", True), ("WHEN_IDLE", False), ("WHEN_IDLE", None)]


@pytest.mark.parametrize(
    "profile",
    ["3.1-flash-live", "3.8-live-extended-thinking", "vertex-3.8", "vertex-2.5", "unknown"],
)
def test_an_interim_answer_that_is_not_taken_does_not_say_that_more_comes(profile):
    adaptation = adapted(profile)
    declared(adaptation)

    assert not adaptation.takes_interim("n")
    assert adaptation.response(answer("n", will_continue=True)).will_continue is None
    assert sent(adaptation, answer("n"), begun=True)[1] is None


def test_a_blocking_call_has_no_interim_answers():
    adaptation = adapted("2.5-native-audio")
    declared(adaptation)

    assert [adaptation.takes_interim(name) for name in "abn"] == [False, False, True]
    assert sent(adaptation, answer("b"), final=False) == (None, None)


def test_an_answer_keeps_its_id_and_content_and_always_has_a_name():
    given = types.FunctionResponse(id="7", response={"status": "ok"})

    assert adapted("3.8-live").response(given) == types.FunctionResponse(
        id="7", name="unknown", response={"status": "ok"}
    )
    assert given.name is None


def test_what_the_model_cannot_do_is_said_once(caplog):
    adaptation = adapted("3.1-flash-live")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            adaptation.declarations([tool(function("n", N), function("b", B), function("a"))])
            adaptation.response(answer("n"), final=False)
        thinking = adapted("3.8-live-extended-thinking")
        thinking.declarations([tool(function("b", B))])

    assert caplog.messages == [
        "The model (3.1-flash-live) does not support NON_BLOCKING: it is silent while 'n' runs",
        "The model (3.1-flash-live) does not support interim responses: no progress of 'n' is sent",
        (
            "The model (3.8-live-extended-thinking) does not support BLOCKING, "
            "which 'b' requests: it may speak before the response"
        ),
    ]


ROUTE = {
    "type": "object",
    "properties": {
        "mode": {"enum": ["bus", "train"]},
        "stops": {
            "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Stop"}}, {"type": "null"}]
        },
    },
    "required": ["mode"],
    "additionalProperties": False,
    "$defs": {
        "Stop": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Stop"}},
        }
    },
}
STOP = {"type": "OBJECT", "properties": {"name": {"type": "STRING"}, "next": {"type": "STRING"}}}
OPENAPI = {
    "type": "OBJECT",
    "properties": {
        "mode": {"type": "STRING", "enum": ["bus", "train"]},
        "stops": {
            "type": "ARRAY",
            "nullable": True,
            "items": {**STOP, "properties": {"name": {"type": "STRING"}, "next": STOP}},
        },
    },
    "required": ["mode"],
}


@pytest.mark.parametrize("profile", load_profiles(), ids=lambda profile: profile.name)
def test_a_schema_has_the_form_that_the_model_reads(profile):
    route = types.FunctionDeclaration(name="route", parameters_json_schema=ROUTE)

    [given] = Adaptation(profile).declarations([tool(route)])

    [declared] = given.function_declarations
    sent = declared.model_dump(mode="json", exclude_none=True, exclude={"name", "behavior"})
    takes_json_schema = profile.name in {"3.1-flash-live", "3.8-live", "vertex-3.8"}
    expected = {"parameters_json_schema": ROUTE} if takes_json_schema else {"parameters": OPENAPI}
    assert sent == expected


def with_files(*kinds: str) -> types.FunctionResponse:
    blobs = [types.FunctionResponseBlob(mime_type=kind, data=b"x") for kind in kinds]
    parts = [types.FunctionResponsePart(inline_data=blob) for blob in blobs]
    return types.FunctionResponse(name="f", response={"message": "A chart."}, parts=parts)


@pytest.mark.parametrize("profile", load_profiles(), ids=lambda profile: profile.name)
def test_only_files_that_the_model_reads_are_sent(profile):
    given = Adaptation(profile).response(with_files("image/png", "application/pdf"))

    kept = [part.inline_data.mime_type for part in given.parts or ()]
    reads_images = "3." in profile.name
    left_out = "application/pdf" if reads_images else "application/pdf, image/png"
    assert kept == (["image/png"] if reads_images else [])
    assert given.response == {
        "message": f"A chart. Files that you cannot read were left out: {left_out}."
    }


def test_a_response_without_refused_files_stays_as_it_was():
    response = with_files("image/webp", "text/plain; charset=utf-8")

    given = adapted("3.8-live").response(response)

    assert (given.parts, given.response) == (response.parts, response.response)
