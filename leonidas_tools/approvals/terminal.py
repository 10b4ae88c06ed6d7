"""Asking the person at the terminal."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.lexicon import Said, judge
from leonidas_tools.approvals.request import ApprovalRequest, Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PROMPT = "[y]es, [n]o, or [a]lways in this session: "
_DECLINE = "decline"
_NOBODY = "nobody answers at the terminal"
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


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


class TerminalChannel:
    """Asks one question after another in the terminal; what is no answer is asked again.

    Args:
        read: Reads a line; the end of the input is an empty text, and no.
        write: Writes a text.
    """

    name = "terminal"
    """What is said to have answered."""

    def __init__(
        self, read: Callable[[], str] = _read, write: Callable[[str], None] = _write
    ) -> None:
        self._read = read
        self._write = write
        self._turn = asyncio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Decision:
        """Asks until there is an answer."""
        async with self._turn:
            self._write(f"{request.title}\n")
            if request.schema is not None:
                return await self._filled(request, request.schema)
            while True:
                self._write(_PROMPT)
                line = await self._line()
                decision = _decision(line)
                if decision is not None:
                    return decision

    async def _filled(self, request: ApprovalRequest, schema: Mapping[str, Any]) -> Decision:
        """Asks for one thing after another; an empty line leaves it out."""
        if request.problem is not None:
            self._write(f"{request.problem}\n")
        self._write(f"(an empty line leaves something out, {_DECLINE!r} refuses all)\n")
        answers: dict[str, Any] = {}
        for name, each in schema.get("properties", {}).items():
            self._write(f"{name}: ")
            line = await self._line()
            text = line.strip()
            if not line or text.casefold() == _DECLINE:
                return Decision.deny(None if line else _NOBODY)
            if text:
                is_list = isinstance(each, dict) and each.get("type") == "array"
                answers[name] = [part.strip() for part in text.split(",")] if is_list else text
        return Decision.fill(answers)

    async def _line(self) -> str:
        """A line; read in a thread of its own, which a program that ends does not wait for."""
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()

        def tell(text: str) -> None:
            if not line.done():
                line.set_result(text)

        def read() -> None:
            text = self._read()
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell, text)

        threading.Thread(target=read, name="approval", daemon=True).start()
        return await line


def _decision(line: str) -> Decision | None:
    if not line:
        return Decision.deny(_NOBODY)
    word = line.strip().casefold()
    if word in _LETTERS:
        return _LETTERS[word]
    said = judge(line)
    if said is Said.DOUBTFUL:
        return None
    return Decision.approve() if said is Said.YES else Decision.deny()
