"""Notify subscribers when a question of a session is opened or closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.calls.listeners import Listeners

if TYPE_CHECKING:
    from leonidas_tools.approvals.question import Question
    from leonidas_tools.approvals.request import Decision

CLOSED_BY_NO_PERSON = frozenset({"expiry", "failure", "session", "tool"})
"""The values of `Closing.by` that name no person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Closing:
    """The way in which a question was closed."""

    answer: str
    """The person's answer (`approve`, `deny`, `edit`, `fill`, `always`), else `proceed` or
    `cancel` after expiry, or `withdrawn`."""
    by: str
    """Author of the decision: `person`, `voice`, `terminal`, `expiry`, `session`, `tool`, …"""
    decision: Decision | None = None
    """The person's answer in full."""


OnQuestion: TypeAlias = Callable[["Question", Closing | None], None]
"""Receives a question and how it was closed; `None` if the question was just opened."""


class ApprovalLog:
    """Notifies subscribers of the questions of a session, with arguments and reasons.

    Events contain neither; the store needs both.
    """

    def __init__(self) -> None:
        self._listeners: Listeners[Question, Closing | None] = Listeners("questions")

    def on_question(self, listener: OnQuestion) -> Callable[[], None]:
        """Subscribe to questions being opened and closed; return a function that unsubscribes."""
        return self._listeners.subscribe(listener)

    def notify(self, question: Question, closing: Closing | None = None) -> None:
        """Notify all listeners."""
        self._listeners.notify(question, closing)
