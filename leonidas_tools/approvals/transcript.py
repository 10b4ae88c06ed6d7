"""What the user was heard to say: the evidence that a person has answered."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

_REMEMBERED = 1000

Kind = Literal["user", "model", "mark"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """A piece of the conversation.

    Args:
        number: Its place.
        kind: Who speaks; a `mark` is where a question came up, or a turn ended.
        text: What the user said, as far as it was heard by then.
        at: When, in seconds since the epoch.
    """

    number: int
    kind: Kind
    text: str = field(default="", repr=False)
    at: float = field(default_factory=time.time)


class Transcript:
    """What the user says in a session, and when the model speaks in between.

    `LiveToolSession` keeps it; whoever has a loop of his own calls `user_said` and `model_spoke`.

    Example:
        >>> transcript = Transcript()
        >>> question = transcript.mark()
        >>> transcript.model_spoke()
        >>> transcript.user_said("Yes,")
        >>> transcript.user_said(" do it.")
        >>> transcript.answer_to(question)
        'Yes, do it.'
    """

    def __init__(self) -> None:
        self._heard: deque[Heard] = deque(maxlen=_REMEMBERED)
        self._numbers = 0
        self._used = 0
        self._changed = asyncio.Event()
        self._model_is_heard = False
        self.user_is_heard = False
        """Whether anything the user has said was ever heard."""

    def user_said(self, text: str) -> None:
        """Takes down what was heard, in pieces of any size."""
        if text:
            self.user_is_heard = True
            self._add("user", text)
            self._changed.set()

    def model_spoke(self) -> None:
        """Takes down that the model speaks; cheap, for it is called for every piece of sound."""
        self._model_is_heard = True
        if not self._heard or self._heard[-1].kind != "model":
            self._add("model")

    def turn_ended(self) -> None:
        """Takes down that somebody has finished: what comes next is said anew."""
        if self._heard and self._heard[-1].kind == "user":
            self._add("mark")

    def mark(self) -> int:
        """Takes down that a question comes up; returns its place."""
        self._add("mark")
        return self._numbers

    def use(self) -> None:
        """What was said so far has answered a question, and answers no other."""
        self._used = self._numbers

    def is_put(self, question: int) -> bool:
        """Whether a question can have been heard: not where the model has not spoken since.

        Args:
            question: The place that `mark` has returned.
        """
        return not self._model_is_heard or any(
            piece.kind == "model" for piece in self._heard if piece.number > question
        )

    def answer_to(self, question: int) -> str | None:
        """What the user has said last since a question was put; `None` for nothing.

        Where the model is heard, a question is put only once it has spoken.

        Args:
            question: The place that `mark` has returned.
        """
        since = max(question, self._used)
        spoken = not self._model_is_heard
        said: list[Heard] = []
        for piece in self._heard:
            if piece.number <= question:
                continue
            spoken = spoken or piece.kind == "model"
            if spoken and piece.number > since:
                said.append(piece)
        utterances = [
            "".join(piece.text for piece in pieces)
            for kind, pieces in groupby(said, lambda piece: piece.kind)
            if kind == "user"
        ]
        return next((each.strip() for each in reversed(utterances) if each.strip()), None)

    async def news(self, seconds: float) -> bool:
        """Waits until the user says more; says whether that happened in time."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _add(self, kind: Kind, text: str = "") -> None:
        self._numbers += 1
        self._heard.append(Heard(number=self._numbers, kind=kind, text=text))
