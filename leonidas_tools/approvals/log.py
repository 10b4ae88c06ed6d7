"""Who hears of every question of a session, and of what became of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.redaction import described

if TYPE_CHECKING:
    from leonidas_tools.approvals.question import Question
    from leonidas_tools.approvals.request import Decision

logger = logging.getLogger(__name__)

BY_NOBODY = frozenset({"expiry", "failure", "session"})
"""Who closes a question where no person has answered it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Closing:
    """How a question was closed.

    Args:
        answer: `approve`, `deny`, `edit` or `always`, as a person has said; `proceed` or `cancel`,
            where nobody has answered in time; `withdrawn`.
        by: Who or what closed it, or by which channel: `voice`, `terminal`, `person`, `expiry`, …
        decision: What the person has said.
    """

    answer: str
    by: str
    decision: Decision | None = None


OnQuestion: TypeAlias = Callable[["Question", Closing | None], None]
"""Given a question, and how it was closed; `None` where it was just asked."""


class ApprovalLog:
    """Tells of the questions of a session, with all that is known of them.

    Events tell neither arguments nor reasons. This does, to whoever keeps them.
    """

    def __init__(self) -> None:
        self._listeners: list[OnQuestion] = []

    def on_question(self, listener: OnQuestion) -> Callable[[], None]:
        """Calls back when a question was asked, and when it was closed.

        Args:
            listener: Given the question, and how it was closed.

        Returns:
            A function that ends it.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return unsubscribe

    def tell(self, question: Question, closing: Closing | None = None) -> None:
        """Tells everybody."""
        for listener in tuple(self._listeners):
            try:
                listener(question, closing)
            except Exception as error:  # noqa: BLE001 - its fault must not decide a question
                logger.warning("A listener for questions failed: %s", described(error))
