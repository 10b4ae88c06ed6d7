"""A channel that asks the person at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.lexicon import Meaning
from leonidas_tools.approvals.request import Answer, ApprovalRequest, Decision
from leonidas_tools.redaction.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leonidas_tools.results.texts import Wording

_SHOW = "show"
_MAX_SHOWN_CHARACTERS = 1_000
"""Maximum characters of a text shown at once; more would push the question off the screen."""
_DECLINE = "decline"
_LETTERS = {
    "y": Decision.approve(),
    "s": Decision.approve(),
    "n": Decision.deny(),
    "a": Decision.always(),
    "always": Decision.always(),
    "sempre": Decision.always(),
}


def _read() -> str:
    return sys.stdin.readline()


def discard_typed(descriptor: int = 0) -> None:
    """Drop unread input of a terminal; leave the lines of a file or a pipe."""
    if not os.isatty(descriptor):
        return
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(termios.error):
        termios.tcflush(descriptor, termios.TCIFLUSH)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


class TerminalChannel:
    """A channel that asks one question at a time in the terminal, until the answer is clear.

    A question too long for a screen is shown as its beginning, the number of characters left out,
    and its end. It can be approved only after it has been shown in full. Input that was typed
    before the question was shown is dropped.

    Args:
        read: Reads a line. An empty string means the end of the input: the call is denied.
        write: Writes a text.
        discard: Drops the unread lines before a question is shown.
        always: Whether to offer an answer for the rest of the session, which may be one call.
    """

    name = "terminal"
    """The `by` of the channel's answers."""

    def __init__(
        self,
        read: Callable[[], str] = _read,
        write: Callable[[str], None] = _write,
        discard: Callable[[], None] = discard_typed,
        *,
        always: bool = True,
    ) -> None:
        self._read = read
        self._write = write
        self._discard = discard
        self._always = always
        self._turn = asyncio.Lock()
        self._lock = threading.Lock()
        self._is_reading = False
        self._tell: Callable[[str], object] | None = None
        """Receives the line that is read next; `None` if nobody waits for it."""

    async def __call__(self, request: ApprovalRequest) -> Decision:
        """Ask until the answer is clear.

        Raises:
            EOFError: The input has ended; the text of the error is the reason that the model reads.
        """
        async with self._turn:
            self._discard()
            refused = await self._put(request)
            if refused is not None:
                return refused
            if request.schema is not None:
                return await self._ask_for_values(request, request.schema)
            choice = "terminal_choice" if self._always else "terminal_choice_once"
            while True:
                self._write(request.words.text(choice))
                line = await self._line(request)
                decision = _decision(line, request)
                if decision is not None:
                    return decision
                self._write(f"{request.words.text('terminal_unclear')}\n")

    async def _put(self, request: ApprovalRequest) -> Decision | None:
        """Show the question, and return a denial if the person refuses before reading all of it."""
        question = visible(request.title)
        self._write(f"{_ends(question, request.words)}\n")
        while len(question) > _MAX_SHOWN_CHARACTERS:
            self._write(request.words.text("terminal_long", show=_SHOW))
            line = await self._line(request)
            if line.strip().casefold() == _SHOW:
                self._write(f"{question}\n")
                for name, value in request.details.items():  # the title shortens long values
                    text = json.dumps(value, ensure_ascii=False, default=str)
                    self._write(f"  {visible(name)}: {visible(text)}\n")
                self._write(f"{_ends(question, request.words)}\n")
                self._discard()  # typed before the full question was shown
                break
            decision = _decision(line, request)
            if decision is not None and decision.answer is Answer.DENY:
                return decision
        return None

    async def _ask_for_values(
        self, request: ApprovalRequest, schema: Mapping[str, Any]
    ) -> Decision:
        """Ask for one value after another, and skip each with an empty line."""
        if request.problem is not None:
            self._write(f"{_ends(visible(request.problem), request.words)}\n")
        self._write(f"{request.words.text('terminal_values', decline=_DECLINE)}\n")
        answers: dict[str, Any] = {}
        for name, each in schema.get("properties", {}).items():
            self._write(f"{_ends(visible(name), request.words)}: ")
            line = await self._line(request)
            text = line.strip()
            if text.casefold() == _DECLINE:
                return Decision.deny()
            if text:
                is_list = isinstance(each, dict) and each.get("type") == "array"
                answers[name] = [part.strip() for part in text.split(",")] if is_list else text
        return Decision.fill(answers)

    async def _line(self, request: ApprovalRequest) -> str:
        """Read a line in a daemon thread, so that the program can exit while it waits.

        A thread that was reading for a withdrawn question reads for this one.
        """
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()

        def take(text: str) -> None:
            if not line.done():
                line.set_result(text)

        def tell(text: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the program ends
                loop.call_soon_threadsafe(take, text)

        with self._lock:
            self._tell = tell
            starts, self._is_reading = not self._is_reading, True
        if starts:
            threading.Thread(target=self._read_line, name="approval", daemon=True).start()
        try:
            text = await line
        finally:
            with self._lock:
                self._tell = None
        if not text:
            raise EOFError(request.words.text("terminal_no_input"))
        return text

    def _read_line(self) -> None:
        text = ""
        with contextlib.suppress(OSError, ValueError):  # such as a terminal that is closed
            text = self._read()
        with self._lock:
            self._is_reading, tell = False, self._tell
        if tell is not None:
            tell(text)


def _ends(text: str, words: Wording) -> str:
    """Return the text, shortened in the middle if it is too long for the screen."""
    if len(text) <= _MAX_SHOWN_CHARACTERS:
        return text
    half = _MAX_SHOWN_CHARACTERS // 2
    left = len(text) - 2 * half
    return f"{text[:half]} {words.text('terminal_left_out', count=left)} {text[-half:]}"


def _decision(line: str, request: ApprovalRequest) -> Decision | None:
    word = line.strip().casefold()
    if word in _LETTERS:
        return _LETTERS[word]
    said = request.judge(line, request.title)
    if said is Meaning.DOUBTFUL:
        return None
    return Decision.approve() if said is Meaning.YES else Decision.deny()
