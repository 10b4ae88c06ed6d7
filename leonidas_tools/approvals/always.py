"""Remember a question that was answered with "always"."""

from __future__ import annotations

import glob
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.errors import ConfigurationError, log_level
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.rules.rule import RISKS, Decide, Rule, Tier

if TYPE_CHECKING:
    from leonidas_tools.approvals.question import Question
    from leonidas_tools.approvals.request import Scope

logger = visible_logger(__name__)


def remember(question: Question, scope: Scope) -> None:
    """Store the answer in the session, the user's preferences or the settings file.

    It covers only the question of the same rule, about the same tool of the same server, with the
    definition that the tool had when it was asked about. A question about the risks of a call is
    asked again: another call may have others.
    """
    if question.rule.name == RISKS.name:
        return
    policy = question.call.session.get(SessionPolicy)
    tool, asks = question.request.tool, question.rule.name
    name, pattern = f"{tool} {asks}", glob.escape(tool)
    origin = None if question.call.tool is None else question.call.tool.origin
    rule = Rule(
        name=name,
        decide=Decide.ALLOW,
        tools=(pattern,),
        servers=() if origin is None else (glob.escape(origin.server),),
        tier=Tier.USER,
        lifts=asks,
        fingerprint=question.fingerprint,
    )
    if scope == "user" and policy.keep_always is not None:
        policy.keep_always(rule)  # applies at once, and can be revoked in all sessions
        return
    policy.always.append(rule)
    if scope == "file":
        entry = {"tools": pattern, "question": asks, "fingerprint": question.fingerprint}
        _save(question, name, {**entry, **({"servers": rule.servers[0]} if rule.servers else {})})
    elif scope == "user":
        logger.warning(
            "'always' for %r applies to this session only: there are no user preferences", name
        )


def _save(question: Question, name: str, entry: dict[str, Any]) -> None:
    user, save = question.request.user, question.asking.save
    if user is not None:
        entry["users"] = user
    try:
        if save is None:
            raise ConfigurationError("there is no settings file to save it in")  # noqa: TRY301 - logged below
        save({"policies": {"always": {name: entry}}})
    except ConfigurationError as error:  # the call is approved nevertheless
        level = log_level(error)
        logger.log(level, "'always' for %r applies to this session only: %s", name, error)
