"""What a person reads in the terminal is what is asked, whatever stands in it."""

import asyncio
import io
import queue
from dataclasses import replace

import pytest
from rich.text import Text

from leonidas_tools.approvals.request import ApprovalRequest, Decision
from leonidas_tools.approvals.terminal import TerminalChannel
from leonidas_tools.cli import terminal

HOSTILE = [
    "\x1b[2K",
    "\r",
    "\b",
    "\n",
    "\x9b2J",
    "\x1b]0;x\x07",
    "\u202e",
    "\u2066",
    "\u200b",
    "\u2028",
]


def asked(title, **details):
    return ApprovalRequest(
        id="1", tool="pay", title=title, details=details, hash="", created=0, deadline=1,
        on_expiry="cancel", session="s", user=None, call_id=None, rule="r",
    )  # fmt: skip


async def answered(request, *lines):
    """The decision, and what was written before each line was read."""
    screens, written, answers = [], [], iter(lines)

    def read():
        screens.append("".join(written))
        written.clear()
        return next(answers)

    return await TerminalChannel(read=read, write=written.append)(request), screens


@pytest.mark.parametrize("sign", HOSTILE, ids=ascii)
async def test_a_question_is_one_line_that_hides_nothing(sign):
    written = []
    request = asked(f"Pay {sign}Ana?")
    await TerminalChannel(read=lambda: "n\n", write=written.append)(request)
    assert written[0].startswith("Pay <U+")
    assert written[0].count("\n") == 1
    assert sign == "\n" or sign not in written[0]


@pytest.mark.parametrize("sign", [sign for sign in HOSTILE if sign != "\n"], ids=ascii)
def test_the_console_writes_out_what_would_rewrite_it(sign):
    for shown in (f"a{sign}b", Text(f"a{sign}b")):
        console = terminal.output()
        console.file = io.StringIO()
        rows = terminal.table(console, "name")
        rows.add_row(shown)
        console.print(shown)
        console.print(rows)
        assert sign not in console.file.getvalue()


LONG = "ls; " + "a" * 100_000 + "; rm -rf /"


@pytest.mark.slow
@pytest.mark.parametrize("filling", ["a", "\n", "\u200b", "\u3000", "火", "a\n" * 10], ids=ascii)
async def test_a_long_argument_does_not_push_the_question_off_the_screen(filling):
    title = f"Run ls {filling * 100_000}; rm -rf /?"
    _, screens = await answered(asked(title), "n\n")
    (screen,) = screens
    question, prompt = screen.split("\n")
    assert len(question) < 1_100
    assert question.startswith("Run ls ")
    assert question.endswith("; rm -rf /?")
    assert " characters are left out here " in question
    assert "show" in prompt


@pytest.mark.parametrize("line", ["y\n", "yes\n", "always\n", "a\n", "sim\n", "all\n", "\n"])
async def test_nothing_is_approved_that_was_not_shown_whole(line):
    decision, screens = await answered(asked(f"Run {LONG}?", command=LONG), line, "no\n")
    assert decision == Decision.deny()
    assert len(screens) == 2


async def test_a_long_question_is_approved_once_all_of_it_was_shown():
    request = asked(f"Run {LONG[:900]}… (99114 characters left out) …{LONG[-900:]}?", command=LONG)
    decision, screens = await answered(request, "y\n", "show\n", "y\n")
    assert decision == Decision.approve()
    assert f'  command: "{LONG}"\n' in screens[2]
    assert len(screens[2].splitlines()[-2]) < 1_100  # what is asked stands above the prompt


async def test_a_yes_that_was_typed_before_a_long_question_was_shown_does_not_count():
    lines = ["show\n", "y\n"]

    def drop():
        if lines == ["y\n"]:  # what is left after "show"
            lines.clear()

    channel = TerminalChannel(
        read=lambda: lines.pop(0) if lines else "no\n", write=lambda _: None, discard=drop
    )
    assert await channel(asked(f"Run {LONG}?", command=LONG)) == Decision.deny()


async def test_the_end_of_the_input_denies_a_long_question():
    with pytest.raises(EOFError, match="the terminal has no more input"):
        await answered(asked(f"Run {LONG}?"), "")


async def test_an_inquiry_that_is_too_long_is_filled_only_after_it_was_shown():
    schema = {"properties": {"name": {"type": "string"}}}
    request = replace(asked(f"Name {LONG}?"), schema=schema)
    decision, screens = await answered(request, "Ana\n", "show\n", "Ana\n")
    assert decision == Decision.fill({"name": "Ana"})
    assert LONG in screens[2]


async def test_an_answer_that_is_not_clear_is_said_to_be_so_before_the_prompt_comes_again():
    decision, screens = await answered(asked("Pay Ana?"), "yes, tomorrow\n", "n\n")
    assert decision == Decision.deny()
    assert screens[1] == (
        "That is not a plain yes or no: answer y or n.\n[y]es, [n]o, or [a]lways in this session: "
    )


async def test_a_channel_for_one_call_offers_no_answer_for_the_session():
    written = []
    await TerminalChannel(read=lambda: "n\n", write=written.append, always=False)(asked("Pay?"))
    assert written == ["Pay?\n", "[y]es or [n]o: "]


async def test_the_first_line_after_a_question_is_withdrawn_answers_the_next():
    lines, shown = queue.SimpleQueue(), asyncio.Queue()
    channel = TerminalChannel(read=lines.get, write=shown.put_nowait, discard=lambda: None)

    async def put(title):
        asking = asyncio.create_task(channel(asked(title)))
        for _ in ("the question", "the choice"):
            await shown.get()
        return asking

    withdrawn = await put("Pay Ana?")
    withdrawn.cancel()
    await asyncio.wait({withdrawn})
    asking = await put("Pay Ben?")
    lines.put("no\n")
    async with asyncio.timeout(10):
        assert await asking == Decision.deny()


async def test_a_terminal_that_cannot_be_read_is_the_end_of_the_input():
    def read():
        raise OSError("no such device")

    with pytest.raises(EOFError):
        await TerminalChannel(read=read, write=lambda _: None)(asked("Pay Ana?"))
