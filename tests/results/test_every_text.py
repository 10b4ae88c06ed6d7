"""No sentence of the library reaches a model or a user except through `texts`."""

import ast
import asyncio
import re
from pathlib import Path

import pytest

import leonidas_tools
from leonidas_tools import AdvancedToolProcessor, ToolError, ToolSession, tool
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.terminal import TerminalChannel
from leonidas_tools.results.texts import TEXTS
from leonidas_tools.toolboxes import action, demo, results, speech, tasks

PACKAGE = Path(leonidas_tools.__file__).parent
PROSE = re.compile(r"[A-Za-z']{2,}[ ,:;]+[a-z']{2,}[ ,:;]+[a-z']{2,}")
"""Three words in a row, which no name, number or marker has."""
_JSON_PROBLEM = re.compile(r"(?<=json_syntax\|)[^|]*")
"""The words of Python's own reader of JSON."""
MARKED = {
    key: "⟦" + "|".join([key, *(f"{{{name}}}" for name in text.placeholders)]) + "⟧"
    for key, text in TEXTS.items()
}
"""A text for every key, which shows its values and no word of its own."""


@tool(effect="read")
async def look(
    city: str = "Lisbon", days: int = 1, unit: str = "c", tags: list[str] | None = None
) -> str:
    return city


@tool(effect="read")
async def fails() -> None:
    raise OSError


@tool(effect="read", timeout_seconds=0.01, retry_attempts=0)
async def slow() -> None:
    await asyncio.Event().wait()


@tool(effect="once", timeout_seconds=0.01)
async def slow_once() -> None:
    await asyncio.Event().wait()


@tool(effect="read", dependencies=["missing_tool"])
async def needy() -> None: ...


@tool(effect="read")
async def long() -> list[int]:
    return [1000] * 1000


@tool(effect="once", requires_approval=True)
async def send(to: str) -> str:
    return to


@tool(effect="read", category="nowhere")
async def uncategorised() -> None: ...


@tool(effect="read", fallback_tools=["look"])
async def replaced() -> None:
    raise OSError


TOOLS = [look, fails, slow, slow_once, needy, long, send, uncategorised, replaced]
TOOLS += [*action.TOOLS, *demo.TOOLS, *results.TOOLS, *speech.TOOLS, *tasks.TOOLS]
CONFIG = {
    "defaults": {"retry_delay": 0},
    "tools": {
        "fails": {"retry_attempts": 1},
        "long": {"max_result_tokens": 100, "overflow": "head"},
        "flip_coin": {"enabled": False},
        "roll_dice": {"status": "maintenance"},
        "get_weather": {"calls_per_session": 1},
    },
    "policies": {
        "max_argument_bytes": 4000,
        "rules": [{"name": "no", "decide": "deny", "tools": ["read_log"]}],
    },
    "texts": MARKED,
}
CALLS = {
    "an unknown tool": ("xyzzy", {}),
    "an unknown tool like another": ("lok", {}),
    "a disabled tool": ("offer_coin", {"offered": True}),
    "a tool under maintenance": ("roll_dice", {}),
    "a wrong type": ("look", {"city": ["a"]}),
    "an argument too many": ("look", {"town": "Rome"}),
    "an argument too few": ("send", {}),
    "several problems": ("look", {"city": 1.5, "days": "x", "unit": [], "tags": {}, "a": 1}),
    "many problems": ("set_speech_rate", {chr(97 + n): n for n in range(9)}),
    "an option that does not exist": ("change_voice", {"voice": "Nobody"}),
    "one of a few options": ("get_weather", {"city": "Rome", "unit": "kelvin"}),
    "a number out of range": ("set_speech_rate", {"rate": 9}),
    "a short text": ("emphasize_text", {"text": ""}),
    "a long list": ("write_tasks", {"tasks": ["a"] * 51}),
    "no object": ("look", "[1]"),
    "no JSON": ("look", "{"),
    "a key twice": ("look", '{"city": "a", "city": "b"}'),
    "NaN": ("look", '{"city": NaN}'),
    "large arguments": ("look", {"city": "x" * 5000}),
    "a failure": ("fails", {}),
    "a timeout": ("slow", {}),
    "a timeout of a side effect": ("slow_once", {}),
    "a missing dependency": ("needy", {}),
    "a long result": ("long", {}),
    "a question": ("send", {"to": "Ana"}),
    "a denial": ("read_log", {"room": "kitchen"}),
    "a fallback": ("replaced", {}),
    "a blank thought": ("think", {"analysis": " ", "reasoning": "a", "plan": "a"}),
    "a sound that nobody hears": ("set_speech_volume", {"volume": 1.5}),
    "a state that cannot follow": ("change_state", {"new_state": "dancing", "reason": "fun"}),
    "an unknown task": ("update_task", {"id": "9", "status": "completed"}),
    "an unknown handle": ("read_result", {"handle": "none"}),
}


def unmarked(answer: object) -> list[str]:
    """Return the prose in an answer that stands in no text of the settings."""
    if isinstance(answer, dict):
        return [each for value in answer.values() for each in unmarked(value)]
    if isinstance(answer, list):
        return [each for value in answer for each in unmarked(value)]
    found = PROSE.findall(_JSON_PROBLEM.sub("", answer)) if isinstance(answer, str) else []
    return [f"{each!r} in {answer!r}" for each in found]


@pytest.mark.parametrize("case", CALLS)
async def test_a_call_that_fails_is_answered_in_the_words_of_the_settings_alone(case):
    name, arguments = CALLS[case]
    tools = AdvancedToolProcessor(tools=TOOLS, config=CONFIG)
    session = ToolSession("kitchen")
    async with tools:
        answers = [
            (await tools.execute(name, arguments, session=session)).to_response() for _ in range(6)
        ]
    assert any("⟦" in str(answer) for answer in answers)
    said = [{k: v for k, v in each.items() if k != "valid_options"} for each in answers]
    assert unmarked(said) == []


@pytest.mark.parametrize("decision", [Decision.deny("no"), Decision.edit({"to": "Ben"})])
async def test_the_outcome_of_a_question_uses_the_texts_of_the_settings(decision):
    told = []
    heard = asyncio.Event()

    def listen(_: object, result: object) -> None:
        told.append(result.to_response())
        heard.set()

    tools = AdvancedToolProcessor(tools=TOOLS, config=CONFIG)
    session = ToolSession("kitchen")
    async with tools:
        await tools.execute("send", {"to": "Ana"}, session=session)
        desk = session.get(Approvals)
        desk.on_result(listen)
        desk.decide(desk.pending()[0].id, decision)
        await heard.wait()
        again = await tools.execute("confirm_action", {"approval_id": "x", "decision": "yes"})
    assert "⟦" in str(told)
    assert unmarked([told, again.to_response()]) == []


@pytest.mark.parametrize("lines", [["n\n"], ["show\n", "n\n"], [""]])
@pytest.mark.parametrize("to", ["Ana", "1 " * 1500])
async def test_the_terminal_asks_in_the_words_of_the_settings(lines, to):
    left, written = iter([*lines, "n\n"]), []
    channel = TerminalChannel(lambda: next(left), written.append)
    tools = AdvancedToolProcessor(tools=TOOLS, config=CONFIG, approval=channel)
    async with tools:
        answer = await tools.execute("send", {"to": to})
    assert "⟦terminal_" in "".join(written)
    assert unmarked([written, answer.to_response()]) == []


# A sentence that no call above reaches is found where it is written.

_SPEAKS = re.compile(r"^(Tool\w*Error|RetryableError|NotPlainError|NotJsonError)$")
_MAKES = {"ToolResult", "no_results", "not_found", "failed"}
_NOT_FOR_MODELS = {
    ("approvals/channels.py", "no answer fits"),  # is logged as the failure of a channel
    ("mcp_server/server.py", "The MCP client cannot ask its user."),  # the same
    ("calls/call.py", "There is no status"),  # a filter of the history
    ("calls/call.py", "; choose one of"),  # the same
}


def written(file: Path) -> list[str]:
    """Return the literal texts that a file gives to errors and results which a model reads."""
    tree = ast.parse(file.read_text())
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if not _SPEAKS.match(name) and name not in _MAKES:
            continue
        keywords = [each.value for each in node.keywords if each.arg in ("message", "retry_hint")]
        first = node.args[:1] if _SPEAKS.match(name) or name != "ToolResult" else []
        for each in [*first, *keywords]:
            found += [
                part.value
                for part in ast.walk(each)
                if isinstance(part, ast.Constant)
                and isinstance(part.value, str)
                and " " in part.value.strip()
            ]
    return found


@pytest.mark.slow
def test_no_error_or_result_for_the_model_is_written_beside_the_texts():
    found = {
        (str(file.relative_to(PACKAGE)), text)
        for file in PACKAGE.rglob("*.py")
        if "simulator" not in file.parts and file.name != "errors.py"
        for text in written(file)
    }
    left = {
        (file, text)
        for file, text in found
        if not any(file.endswith(f) and text.startswith(t) for f, t in _NOT_FOR_MODELS)
    }
    assert left == set(), "give each a key in `TEXTS`, and say it with `say`"


def test_the_check_finds_a_sentence_that_is_written_in_the_code(tmp_path):
    file = tmp_path / "box.py"
    file.write_text(
        'def f(x):\n    raise ToolError(f"No {x} today.", retry_hint="Ask later on.")\n'
    )
    assert written(file) == ["Ask later on."]
    assert unmarked(ToolError("There is no coin today.").message) != []
