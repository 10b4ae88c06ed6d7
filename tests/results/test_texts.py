"""What the library says can be reworded in the file, and nothing else can."""

import asyncio

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolError, ToolResult, ToolSession, tool
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.results.texts import TEXTS
from leonidas_tools.settings.load import load


@tool(effect="read")
async def look(city: str = "Lisbon") -> str:
    return city


@tool(effect="read")
async def fails() -> str:
    raise OSError("secret")


@tool(effect="read", timeout_seconds=0.01, retry_attempts=0)
async def slow() -> None:
    await asyncio.Event().wait()


@tool(effect="once", timeout_seconds=0.01)
async def slow_once() -> None:
    await asyncio.Event().wait()


@tool(effect="read", retry_attempts=2, timeout_seconds=0.01)
async def slow_thrice() -> None:
    await asyncio.Event().wait()


@tool(effect="read", dependencies=["missing_tool"])
async def needy() -> None: ...


@tool(effect="read")
async def long() -> list:
    return [1000] * 1000


@tool(effect="once", requires_approval=True)
async def send(to: str) -> str:
    return to


@tool(effect="read", fallback_tools=["look"])
async def replaced() -> None:
    raise OSError


RULES = [{"name": "no", "decide": "deny", "tools": ["look"]}]
TOOLS = [look, fails, slow, slow_once, slow_thrice, needy, long, send, replaced]
NO_RETRY = {"defaults": {"retry_attempts": 0}}

REWORDED = {
    # key: (template, settings, calls before, the call, its arguments, what the model reads)
    "unknown_tool": ("Kein {tool!r}.", {}, 0, "xyzzy", {}, "Kein 'xyzzy'."),
    "closest_tool": (
        "Nimm {closest}.",
        {},
        0,
        "sendd",
        {},
        "There is no tool 'sendd'. Nimm send.",
    ),
    "similar_tool": (
        "{called} heißt {tool}.",
        {"policies": {"similar_tool": "read"}},
        0,
        "Look",
        {},
        "Look heißt look.",
    ),
    "disabled": (
        "{tool} ist aus.",
        {"tools": {"look": {"enabled": False}}},
        0,
        "look",
        {},
        "look ist aus.",
    ),
    "maintenance": (
        "{tool} wird repariert.",
        {"tools": {"look": {"status": "maintenance"}}},
        0,
        "look",
        {},
        "look wird repariert.",
    ),
    "invalid_argument": (
        "Falsch bei {tool}.",
        {},
        0,
        "look",
        {"city": ["a"]},
        "Falsch bei look.",
    ),
    "arguments_too_large": (
        "Höchstens {bytes}.",
        {"policies": {"max_argument_bytes": 100}},
        0,
        "look",
        {"city": "x" * 200},
        "Höchstens 100.",
    ),
    "missing_dependency": (
        "{tool} braucht {needs}.",
        {},
        0,
        "needy",
        {},
        "needy braucht 'missing_tool'.",
    ),
    "failed": ("{tool!r} {{ging}} nicht.", NO_RETRY, 0, "fails", {}, "'fails' {ging} nicht."),
    "timeout": ("Nach {seconds} s aus.", {}, 0, "slow", {}, "Nach 0.01 s aus."),
    "timeout_unknown": ("Wer weiss ({tool}).", {}, 0, "slow_once", {}, "Wer weiss (slow_once)."),
    "tried": (
        "{count} Versuche.",
        {"defaults": {"retry_delay": 0}},
        0,
        "slow_thrice",
        {},
        "The tool 'slow_thrice' did not finish within 0.01 seconds. 3 Versuche.",
    ),
    "stood_in": (
        "{fallback} statt {tool}.",
        NO_RETRY,
        0,
        "replaced",
        {},
        "look statt replaced.",
    ),
    "result_cut": (
        "Gekürzt auf {tokens}.",
        {"tools": {"long": {"max_result_tokens": 100, "overflow": "head"}}},
        0,
        "long",
        {},
        "Gekürzt auf 100.",
    ),
    "result_part": (
        "Mehr mit {reader}.",
        {"tools": {"long": {"max_result_tokens": 100, "overflow": "spill"}}},
        0,
        "long",
        {},
        "Mehr mit read_result.",
    ),
    "circuit_open": (
        "{tool} ruht.",
        {**NO_RETRY, "policies": {"breaker": {"min_calls": 1}}},
        1,
        "fails",
        {},
        "fails ruht.",
    ),
    "calls_per_session": (
        "Nur {count}-mal {tool}.",
        {"tools": {"look": {"calls_per_session": 1}}},
        1,
        "look",
        {},
        "Nur 1-mal look.",
    ),
    "all_calls_per_turn": (
        "Nur {count} Aufrufe.",
        {"policies": {"calls": {"per_turn": 1}}},
        1,
        "look",
        {},
        "Nur 1 Aufrufe.",
    ),
    "calls_per_minute": (
        "{count} in der Minute.",
        {"tools": {"look": {"calls_per_minute": 1}}},
        1,
        "look",
        {},
        "1 in der Minute.",
    ),
    "loop": ("{count} gleiche.", {}, 4, "look", {}, "4 gleiche."),
    "loop_warning": ("Zum {count}. Mal.", {}, 2, "look", {}, "Zum 3. Mal."),
    "denied_by_rule": (
        "{tool} ist verboten.",
        {"policies": {"rules": RULES}},
        0,
        "look",
        {},
        "look ist verboten.",
    ),
    "denied_by_rule_because": (
        "Verboten: {reason}",
        {"policies": {"rules": [{**RULES[0], "message": "Not {city}."}]}},
        0,
        "look",
        {"city": "Rome"},
        "Verboten: Not Rome.",
    ),
    "how_to_ask": (
        "Frag.",
        {},
        0,
        "send",
        {"to": "Ana"},
        "Nothing was done yet: the user must approve it first. Frag.",
    ),
    "needs_approval": (
        "Erst fragen.",
        {},
        0,
        "send",
        {"to": "Ana"},
        f"Erst fragen. {TEXTS['how_to_ask'].default}",
    ),
}


async def answers(config, name, arguments, before=0):
    """The answers to the same call made several times."""
    tools = AdvancedToolProcessor(tools=TOOLS, config=config)
    session = ToolSession("kitchen")
    async with tools:
        return [
            (await tools.execute(name, arguments, session=session)).to_response()
            for _ in range(before + 1)
        ]


@pytest.mark.parametrize("key", REWORDED)
async def test_a_text_is_reworded_and_the_rest_of_the_answer_stays(key):
    template, settings, before, name, arguments, expected = REWORDED[key]
    *_, usual = await answers(settings, name, arguments, before)
    *_, reworded = await answers({**settings, "texts": {key: template}}, name, arguments, before)
    assert reworded["message"] == expected
    assert usual["message"] != expected
    changing = ("message", "result") if "result" in usual else ("message",)  # ids and handles
    assert {k: v for k, v in reworded.items() if k not in changing} == {
        k: v for k, v in usual.items() if k not in changing
    }


async def test_the_hint_of_an_answer_is_reworded():
    config = {
        "tools": {"look": {"calls_per_minute": 1}},
        "texts": {"calls_per_minute_hint": "Warte {seconds} s."},
    }
    _, refused = await answers(config, "look", {}, 1)
    assert refused["retry_hint"] == "Warte 60 s."


async def test_the_question_to_the_user_is_reworded():
    config = {"texts": {"approval_question": "Darf ich: {what}?"}}
    (pending,) = await answers(config, "send", {"to": "Ana {what.__class__}"})
    assert pending["result"]["ask"] == "Darf ich: send, to Ana {what.__class__}?"


async def test_a_denial_that_comes_late_is_reworded():
    tools = AdvancedToolProcessor(tools=TOOLS, config={"texts": {"refused": "{tool}: nein."}})
    session, told = ToolSession("kitchen"), []
    async with tools:
        await tools.execute("send", {"to": "Ana"}, session=session)
        desk = session.get(Approvals)
        desk.on_result(lambda _, result: told.append(result.message))
        desk.decide(desk.pending()[0].id, Decision.deny("zu spät"))
    assert told == [f"send: nein. Reason given: 'zu spät'. {TEXTS['after_denial'].default}"]


@pytest.mark.parametrize("key", ["stopped", "not_again"])
async def test_what_a_person_has_stopped_is_reworded(key):
    started = asyncio.Event()

    @tool(effect="read")
    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    tools = AdvancedToolProcessor(tools=[waits], config={"texts": {key: "Halt."}})
    async with tools:
        calling = asyncio.create_task(tools.execute("waits", call_id="c1"))
        await started.wait()
        answer = await tools.cancel("c1")
        assert (await calling) == answer
    usual = {
        "stopped": "The user stopped the tool 'waits'.",
        "not_again": TEXTS["not_again"].default,
    }
    assert answer.message == " ".join({**usual, key: "Halt."}.values())


OF_A_TOOL = {
    "an error with our words and code": ToolError("The tool 'own' failed.", reason_code="loop"),
    "an error that reads like a timeout": ToolError(
        "The tool 'own' did not finish within 1 seconds.",
        status="timeout",
        reason_code="attempt_timeout",
    ),
    "an error like an unknown tool": ToolError(
        "There is no tool 'own'.", status="not_found", reason_code="unknown_tool"
    ),
    "a result like a denial": ToolResult(
        status="denied", message="'own' was not run: the user said no.", reason_code="refused"
    ),
    "a result like a limit": ToolResult(
        status="limited", message="Tools were called", reason_code="calls_per_session"
    ),
}


@pytest.mark.parametrize("case", OF_A_TOOL)
async def test_what_a_tool_says_is_never_replaced(case):
    said = OF_A_TOOL[case]

    @tool(effect="once")
    async def own() -> ToolResult:
        if isinstance(said, ToolError):
            raise said
        return said

    texts = {key: "REPLACED" for key, text in TEXTS.items() if not text.required}
    tools = AdvancedToolProcessor(tools=[own], config={"texts": texts})
    result = await tools.execute("own")
    assert (result.message, result.reason_code) == (said.message, said.reason_code)


async def test_unseen_characters_of_a_name_are_written_out_and_it_is_filled_in_once():
    name = "x\u202ey\n{tool.__class__}{0}"
    (answer,) = await answers({"texts": {"unknown_tool": "Kein {tool}."}}, name, {})
    assert answer["message"].startswith("Kein x<U+202E>y\n{tool.__class__}{0}.")


async def test_every_default_written_out_changes_nothing():
    texts = {key: text.default for key, text in TEXTS.items()}
    for _, settings, before, name, arguments, _ in REWORDED.values():
        if name in ("send", "long"):
            continue  # ids and handles differ
        usual = await answers(settings, name, arguments, before)
        assert await answers({**settings, "texts": texts}, name, arguments, before) == usual


async def test_an_edit_of_the_texts_reaches_a_running_program(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("texts: {failed: one}\n")
    tools = AdvancedToolProcessor(tools=TOOLS, config=file)
    async with tools:
        first = await tools.execute("fails")
        file.write_text("texts: {failed: two}\n")
        tools.settings.reload()
        second = await tools.execute("fails")
    assert [first.message.split()[0], second.message.split()[0]] == ["one", "two"]


BAD = {
    "an unknown key": ("timout: x", "texts.timout", "did you mean 'timeout'?"),
    "an unknown placeholder": ("failed: '{name}'", "texts.failed", "unknown placeholder {name}"),
    "that of another text": ("failed: '{seconds}'", "texts.failed", "allowed: {tool}"),
    "an attribute": ("failed: '{tool.__class__}'", "texts.failed", "{tool.__class__}"),
    "an item": ("failed: '{tool[0]}'", "texts.failed", "{tool[0]}"),
    "a number": ("failed: '{0}'", "texts.failed", "{0}"),
    "nothing in braces": ("failed: '{}'", "texts.failed", "unknown placeholder {}"),
    "a format": ("failed: '{tool:>999999999}'", "texts.failed", "write {tool} or {tool!r}"),
    "a nested format": ("failed: '{tool:{tool}}'", "texts.failed", "write {tool} or {tool!r}"),
    "another conversion": ("failed: '{tool!a}'", "texts.failed", "write {tool} or {tool!r}"),
    "an open brace": ("failed: 'a { b'", "texts.failed", "write {{ and }}"),
    "a closed brace": ("failed: 'a } b'", "texts.failed", "write {{ and }}"),
    "a variable": ("failed: '${HOME}'", "texts.failed", "unknown placeholder {HOME}"),
    "a variable with a default": ("failed: '${HOME:-x}'", "texts.failed", "placeholder {HOME}"),
    "an empty text": ("failed: ''", "texts.failed", "must not be empty"),
    "no text": ("failed:", "texts.failed", "is empty"),
    "a list": ("failed: [a]", "texts.failed", "should be text"),
    "a long text": (f"failed: '{'x' * 2001}'", "texts.failed", "longer than 2000 characters"),
    "a hidden direction": ('failed: "a\\u202eb"', "texts.failed", "invisible"),
    "a question that does not say what": (
        "approval_question: 'May I?'",
        "texts.approval_question",
        "lacks required placeholders: {what}",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_text_is_refused_with_its_line(case, tmp_path):
    line, key, says = BAD[case]
    file = tmp_path / "tools.yaml"
    file.write_text(f"version: 1\ntexts:\n  {line}\n")
    with pytest.raises(ConfigurationError) as error:
        load(file)
    assert (error.value.line, error.value.key) == (3, key)
    assert says in error.value.message


def test_every_default_is_a_template_that_could_be_written():
    assert load({"texts": {key: text.default for key, text in TEXTS.items()}}).texts is not None
    assert load(None).wording is None
