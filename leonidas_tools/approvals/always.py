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
    """Keeps the answer: in the session, and among the preferences or in the file where wanted.

    Args:
        question: What was asked. Only the question of the same rule is not asked again, and only
            about the same tool.
        scope: How long it holds.
    """
    policy = question.call.session.get(SessionPolicy)
    tool, asks = question.request.tool, question.rule.name
    name, pattern = f"{tool} {asks}", glob.escape(tool)
    rule = Rule(name=name, decide=Decide.ALLOW, tools=(pattern,), tier=Tier.USER, lifts=asks)
    if scope == "user" and policy.keep_always is not None:
        policy.keep_always(rule)  # at once, and so that it can be taken back everywhere
        return
    policy.always.append(rule)
    if scope == "file":
        _save(question, name, {"tools": pattern, "question": asks})
    elif scope == "user":
        logger.warning("'always' for %r holds for this session only: nothing is kept", name)


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
