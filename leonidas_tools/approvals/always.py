"""A question that was answered with "always" is not asked again."""

from __future__ import annotations

import glob
import logging
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.rules.rule import Decide, Rule, Tier

if TYPE_CHECKING:
    from leonidas_tools.approvals.question import Question
    from leonidas_tools.approvals.request import Scope

logger = logging.getLogger(__name__)


def remember(question: Question, scope: Scope) -> None:
    """Keeps the answer: in the session, and in the file where that is wanted.

    Args:
        question: What was asked. Only the question of the same rule is not asked again, and only
            about the same tool.
        scope: How long it holds.
    """
    tool, asks = question.request.tool, question.rule.name
    name, pattern = f"{tool} {asks}", glob.escape(tool)
    rule = Rule(name=name, decide=Decide.ALLOW, tools=(pattern,), tier=Tier.USER, lifts=asks)
    question.call.session.get(SessionPolicy).always.append(rule)
    if scope == "file":
        _save(question, name, {"tools": pattern, "question": asks})


def _save(question: Question, name: str, entry: dict[str, Any]) -> None:
    user, save = question.request.user, question.asking.save
    if user is not None:
        entry["users"] = user
    try:
        if save is None:
            raise ConfigurationError("no file is kept here")  # noqa: TRY301 - said once, below
        save({"policies": {"always": {name: entry}}})
    except ConfigurationError as error:  # yes was said all the same
        logger.warning("'always' for %r holds for this session only: %s", name, error)
