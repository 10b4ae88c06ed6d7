"""A result is no longer than it may be, stays valid JSON, and what was left out can be read."""

from __future__ import annotations

import json
import sys
import threading
import tracemalloc
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, Tool, ToolResult
from leonidas_tools.calls.call import Media
from leonidas_tools.policies.result_budget import speakable
from leonidas_tools.redaction import Redaction
from leonidas_tools.results.plain import fitting, length
from leonidas_tools.results.spill import ResultMemory, Results
from tests.policies.runs import tools_of

LINES = "\n".join(f"line {n}" for n in range(2000))


def returning(value: Any, **options: Any) -> AdvancedToolProcessor:
    """A tool that returns that."""

    async def get() -> Any:
        return value

    return tools_of(Tool(get, effect="read", **options))


async def got(value: Any, **options: Any) -> ToolResult:
    return await returning(value, **options).execute("get")


async def test_a_short_result_stays_as_it_is() -> None:
    for overflow in ("head", "tail", "both", "spill"):
        result = await got({"a": [1, "b"]}, max_result_tokens=50, overflow=overflow)
        assert result.to_response() == {
            "status": "ok",
            "result": {"a": [1, "b"]},
            "retryable": False,
        }


@pytest.mark.parametrize(
    ("overflow", "begins", "ends"),
    [("head", True, False), ("tail", False, True), ("both", True, True)],
)
async def test_a_long_text_keeps_its_beginning_its_end_or_both(
    overflow: str, begins: bool, ends: bool
) -> None:
    result = await got(LINES, max_result_tokens=100, overflow=overflow)
    assert result.message == "The result was truncated: it is longer than 100 tokens."
    assert 300 <= length(result.result) <= 400
    assert result.result.startswith("line 0\n") is begins
    assert result.result.endswith("\nline 1999") is ends


async def test_a_fifth_is_the_beginning_and_the_rest_the_end() -> None:
    result = await got("a" * 5000 + "z" * 5000, max_result_tokens=1000, overflow="both")
    head, tail = result.result.count("a"), result.result.count("z")
    assert 3.5 < tail / head < 4.5


async def test_lists_keep_whole_items() -> None:
    items = [{"number": n} for n in range(1000)]
    both = (await got(items, max_result_tokens=200, overflow="both")).result
    mark = next(index for index, item in enumerate(both) if isinstance(item, str))
    assert both[:mark] == items[:mark]
    assert both[mark + 1 :] == items[-(len(both) - mark - 1) :]
    assert both[mark] == f"… {1000 - len(both) + 1} more …"
    assert 1 < mark < len(both) / 2


@pytest.mark.parametrize("overflow", ["tail", "both"])
async def test_keys_survive_and_short_values_stay_whole(overflow: str) -> None:
    value = {"stdout": LINES, "exit_code": 1, "stderr": "oh no", "files": list(range(5000))}
    cut = (await got(value, max_result_tokens=300, overflow=overflow)).result
    assert list(cut) == list(value)
    assert (cut["exit_code"], cut["stderr"]) == (1, "oh no")
    assert cut["stdout"].endswith("line 1999")
    assert cut["files"][-1] == 4999
    assert length(cut) <= 1200


async def test_chinese_weighs_more_than_english() -> None:
    english = ToolResult(result="b" * 9999, speech="-")
    chinese = ToolResult(result="语" * 9999, speech="-")
    kept = [await got(each, max_result_tokens=100, overflow="tail") for each in (english, chinese)]
    assert kept[0].result.count("b") == 349
    assert kept[1].result.count("语") == 58  # one and a half tokens each, and the mark


async def test_the_settings_have_the_last_word() -> None:
    async def get() -> str:
        return LINES

    tools = tools_of(
        Tool(get, effect="read", max_result_tokens=100, overflow="head"),
        tools={"get": {"max_result_tokens": 50, "overflow": "tail"}},
    )
    result = await tools.execute("get")
    assert result.result.endswith("line 1999")
    assert length(result.result) <= 200


async def test_the_bound_in_bytes_holds_too() -> None:
    tools = tools_of(
        Tool(lambda: LINES, name="get", effect="read", overflow="tail", max_result_tokens=9999),
        tools={"get": {"max_result_bytes": 500}},
    )
    assert length((await tools.execute("get")).result) <= 500


plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=200),
    lambda inside: (
        st.lists(inside, max_size=20) | st.dictionaries(st.text(max_size=20), inside, max_size=12)
    ),
    max_leaves=60,
)


@given(plain_json, st.integers(100, 2000), st.sampled_from(["head", "tail", "both"]))
def test_a_cut_value_is_json_of_bounded_length(value: Any, room: int, keep: Any) -> None:
    cut = fitting(value, room, keep)
    assert json.loads(json.dumps(cut, allow_nan=False)) == cut
    if length(value) <= room:
        assert cut == value
    else:
        assert length(cut) <= room + (0 if keep == "head" else 60)


# --- what is kept whole -------------------------------------------------------------------------


async def test_a_result_that_spills_can_be_read_to_its_end() -> None:
    tools = returning(LINES, max_result_tokens=100, overflow="spill")
    spilled = await tools.execute("get")
    assert spilled.message == (
        "This is part of the result; call read_result with its handle to read more."
    )
    assert set(spilled.result) == {"handle", "preview"}
    assert length(spilled.result) <= 400
    read, offset = "", 0
    while offset is not None:
        piece = await tools.execute(
            "read_result", {"handle": spilled.result["handle"], "offset": offset}
        )
        assert piece.ok
        read, offset = read + piece.result["text"], piece.result["next_offset"]
    assert read == LINES


async def test_any_json_spills_as_lines() -> None:
    value = [{"name": f"ação {n}", "文": n} for n in range(500)]
    tools = returning(value, max_result_tokens=100, overflow="spill")
    handle = (await tools.execute("get")).result["handle"]
    text, offset = "", 0
    while offset is not None:
        piece = (
            await tools.execute("read_result", {"handle": handle, "offset": offset, "limit": 1001})
        ).result
        text, offset = text + piece["text"], piece["next_offset"]
    assert json.loads(text) == value


async def test_lines_with_a_text_are_found() -> None:
    tools = returning(LINES.replace("line 77", "Line (77)"), max_result_tokens=9, overflow="spill")
    handle = (await tools.execute("get")).result["handle"]
    found = await tools.execute("read_result", {"handle": handle, "pattern": "line (77)"})
    assert [line["line"] for line in found.result["lines"]] == ["Line (77)"] + [
        f"Line (77){n}" for n in range(10)
    ]
    offset = found.result["lines"][3]["offset"]
    piece = await tools.execute("read_result", {"handle": handle, "offset": offset, "limit": 9})
    assert piece.result["text"] == "Line (77)"
    none = await tools.execute("read_result", {"handle": handle, "pattern": ".*"})
    assert (none.result["lines"], none.result["next_offset"]) == ([], None)


async def test_many_lines_are_found_piece_by_piece() -> None:
    tools = returning(LINES, max_result_tokens=9, overflow="spill")
    handle = (await tools.execute("get")).result["handle"]
    lines, offset, arguments = [], 0, {"handle": handle, "pattern": "9", "limit": 300}
    while offset is not None:
        page = (await tools.execute("read_result", {**arguments, "offset": offset})).result
        lines += [line["line"] for line in page["lines"]]
        offset = page["next_offset"]
    assert lines == [line for line in LINES.splitlines() if "9" in line]


@pytest.mark.slow
async def test_a_result_of_very_many_lines_is_searched_beside_the_event_loop() -> None:
    tools = returning("a\r\n" * 300_000, max_result_tokens=9, overflow="spill")
    handle = (await tools.execute("get")).result["handle"]
    calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event.endswith("call")

    tracemalloc.start()
    try:
        sys.setprofile(count)  # this thread, which runs the event loop
        found = await tools.execute("read_result", {"handle": handle, "pattern": "b"})
        sys.setprofile(None)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
    assert (found.result["lines"], found.result["size"]) == ([], 900_000)
    assert calls < 50_000
    assert most_bytes < 5_000_000


async def test_an_unknown_handle_is_said_to_be_unknown() -> None:
    tools = returning(LINES, max_result_tokens=9, overflow="spill")
    tools.declarations()
    for handle in ("no", (await tools.execute("get")).result["handle"] + "x"):
        result = await tools.execute("read_result", {"handle": handle})
        assert (result.status, result.reason_code) == ("not_found", "unknown_handle")


async def test_a_handle_is_of_no_use_in_another_session() -> None:
    from leonidas_tools import ToolSession

    tools = returning(LINES, max_result_tokens=9, overflow="spill")
    handle = (await tools.execute("get")).result["handle"]
    other = await tools.execute("read_result", {"handle": handle}, session=ToolSession())
    assert other.status == "not_found"


async def test_reading_is_limited_by_nothing() -> None:
    async def get() -> str:
        return LINES

    tools = tools_of(
        Tool(get, effect="read", max_result_tokens=9, overflow="spill"),
        policies={"calls": {"per_turn": 1}},
    )
    handle = (await tools.execute("get")).result["handle"]
    again = [await tools.execute("read_result", {"handle": handle}) for _ in range(10)]
    assert {(r.status.value, r.message) for r in again} == {("ok", None)}


def names(tools: AdvancedToolProcessor) -> list[str | None]:
    declared = tools.declarations()[0].function_declarations or []
    return [function.name for function in declared]


async def test_the_tool_is_declared_only_while_some_tool_spills(tmp_path) -> None:
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {get: {overflow: head}}")

    async def get() -> str:
        return LINES

    tools = AdvancedToolProcessor([get], file, builtin_tools=False)
    async with tools:
        for overflow, expected in [
            ("head", ["get"]),
            ("spill", ["get", "read_result"]),
            ("both", ["get"]),
        ]:
            tools.settings.update({"tools.get.overflow": overflow})
            assert names(tools) == expected


async def test_a_tool_of_the_user_with_that_name_stays() -> None:
    def read_result(handle: str) -> str:
        return "mine"

    tools = tools_of(
        Tool(lambda: LINES, name="get", overflow="spill", max_result_tokens=9), read_result
    )
    assert (await tools.execute("read_result", {"handle": "x"})).result == "mine"


async def test_what_cannot_be_kept_is_cut() -> None:
    tools = returning(LINES, max_result_tokens=100, overflow="spill")
    tools.session.get(Results).store = ResultMemory(max_bytes=100)
    result = await tools.execute("get")
    assert result.message == "The result was truncated: it is longer than 100 tokens."
    assert result.result.endswith("line 1999")


async def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    memory = ResultMemory(max_bytes=100)
    handles = [await memory.put(bytes(30)) for _ in range(5)]
    held = []
    for handle in handles:
        try:
            held.append((await memory.read(handle)).size)
        except Exception as error:
            held.append(type(error).__name__)
    assert held == ["StoreError", "StoreError", 30, 30, 30]


# --- what can be spoken -------------------------------------------------------------------------


async def test_a_long_text_comes_with_what_can_be_spoken() -> None:
    text = "# Report\n\nThe **disk** is full. " + "Details follow. " * 50
    result = await got(text, max_result_tokens=500)
    assert result.speech == "Report. The disk is full."
    assert result.to_response()["speech"] == result.speech


@pytest.mark.parametrize(
    "value", ["short.", {"text": LINES}, None, ToolResult(result=LINES, speech="Mine.")]
)
async def test_what_is_short_no_text_or_says_it_itself_does_not(value: Any) -> None:
    result = await got(value, max_result_tokens=9999)
    assert result.speech == (value.speech if isinstance(value, ToolResult) else None)


async def test_a_tool_without_a_budget_is_left_as_it_is() -> None:
    result = await got(LINES)
    assert (result.result, result.speech, result.message) == (LINES, None, None)


async def test_pictures_and_failures_pass() -> None:
    media = (Media(mime_type="image/png", data=b"png"),)
    result = await got(ToolResult(result=LINES, media=media), max_result_tokens=50)
    assert result.media == media
    failed = await got(ToolResult.failed("No."), max_result_tokens=50, overflow="spill")
    assert (failed.status, failed.message) == ("failed", "No.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Plain words. And more. And more.", "Plain words. And more."),
        ("\x1b[31mred\x1b[0m alert!\nBe quick.", "red alert! Be quick."),
        ("- one\n- two\n- three", "one. two."),
        ("1. first\n2) second", "first. second."),
        ("```py\nx = 1\n```\nDone.", "Done."),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b. 1 2."),
        ("See [the *docs*](https://x.org/a_b) now", "See the docs now."),
        ("snake_case stays, __bold__ goes", "snake_case stays, bold goes."),
        ("今天晴。明天有雨。后天多云。", "今天晴。 明天有雨。"),
        ("Version 3.5 is out. Get it.", "Version 3.5 is out. Get it."),
        ("Olá! Está sol em São Paulo; 25 °C.", "Olá! Está sol em São Paulo; 25 °C."),
        ("<b>bold</b> move", "bold move."),
        ("---\n***\n", None),
        ("", None),
    ],
)
def test_a_sentence_or_two_without_markup(text: str, said: str | None) -> None:
    assert speakable(text) == said


@given(st.text(max_size=2000))
def test_what_is_spoken_is_short_and_of_one_line(text: str) -> None:
    said = speakable(text)
    if said is not None:
        assert 0 < len(said) <= 300
        assert "\n" not in said
        assert "\x1b" not in said


def test_a_very_long_word_is_cut() -> None:
    assert speakable("a" * 5000) == "a" * 299 + "…"


WORDS = "All of this was said by the tool, word after word. " * 10


@pytest.mark.parametrize(
    "value",
    [
        ToolResult(result="short", speech=WORDS),
        ToolResult(result=LINES, speech=WORDS),
        ToolResult(result=LINES, message=WORDS, retry_hint=WORDS, speech=WORDS),
        ToolResult(message=WORDS),
        ToolResult.failed(WORDS, retry_hint=WORDS),
        ToolResult.failed("No.", valid_options=[f"option {n}" for n in range(500)]),
        ToolResult(result=list(range(900)), speech="\u822a\u73ed" * 200),
        LINES,
    ],
)
@pytest.mark.parametrize("tokens", [20, 40, 100])
@pytest.mark.parametrize("overflow", ["head", "tail", "both"])
async def test_what_stands_beside_the_value_counts_too(
    value: Any, tokens: int, overflow: str
) -> None:
    result = await got(value, max_result_tokens=tokens, overflow=overflow)
    own = f" The result was truncated: it is longer than {tokens} tokens."
    message = (result.message or "").removesuffix(own.strip()).strip()
    beside = [message, result.retry_hint, list(result.valid_options or ()), result.speech]
    total = sum(length(each) for each in [result.result, *beside] if each)
    assert total <= 4 * tokens + 2


async def test_words_that_fit_stay_and_the_value_gets_the_rest() -> None:
    said = ToolResult(result="short", message="Done.", speech="It is done.", valid_options=["a"])
    assert await got(said, max_result_tokens=20) == said
    result = await got(ToolResult(result=LINES, speech="Two thousand."), max_result_tokens=100)
    assert result.speech == "Two thousand."
    assert 300 <= length(result.result) <= 400 - len("Two thousand.")


async def test_long_words_are_cut_between_words_and_the_message_goes_first() -> None:
    said = ToolResult.failed(WORDS, retry_hint=WORDS)
    result = await got(said, max_result_tokens=20)
    assert result.message == "All of this was said by the tool, word after word. All of this was…"
    assert result.retry_hint is None


async def test_options_stay_whole() -> None:
    said = ToolResult.failed("No.", valid_options=[f"option {n}" for n in range(500)])
    result = await got(said, max_result_tokens=20)
    assert result.valid_options == [f"option {n}" for n in range(len(result.valid_options or ()))]
    assert result.valid_options


async def test_words_made_for_a_text_that_fits_take_nothing_from_it() -> None:
    text = "a sentence. " * 30
    result = await got(text, max_result_tokens=(len(text) + 8) // 4)
    assert (result.result, result.speech) == (text, None)


@pytest.mark.parametrize(
    "value",
    [LINES * 10, [{"id": n, "token": f"number {n}"} for n in range(5000)], {LINES: LINES * 4}],
    ids=["text", "rows", "long key"],
)
@pytest.mark.parametrize("in_thread", [True, False], ids=["long", "short"])
async def test_a_long_result_is_masked_and_written_beside_the_event_loop(
    value: Any, in_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    is_needless = Redaction.is_needless

    def noted(self: Redaction, text: str) -> bool:
        threads.add(threading.get_ident())
        return is_needless(self, text)

    monkeypatch.setattr(Redaction, "is_needless", noted)
    result = await got(value if in_thread else LINES[:1000], max_result_tokens=50, overflow="spill")
    assert "handle" in result.result
    assert (threading.get_ident() in threads) is not in_thread
