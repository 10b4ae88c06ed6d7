"""Why a call is decided as it is: every rule about its tool, in order, with what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.rules.engine import Circumstances, ToolRules, Verdict
    from leonidas_tools.rules.rule import Decide, Rule


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A rule about the tool of a call.

    Args:
        rule: The rule.
        decides: Whether it is the one that decides.
        why: Why it does, or does not.
    """

    rule: Rule
    decides: bool
    why: str

    def to_json(self) -> dict[str, Any]:
        """The candidate as plain JSON."""
        return {
            "rule": self.rule.name,
            "tier": self.rule.tier.name.lower(),
            "priority": self.rule.priority,
            "decide": self.rule.decide.value,
            "decides": self.decides,
            "why": self.why,
        }


def explain(
    rules: ToolRules, about: Circumstances, more: Sequence[Rule] = ()
) -> tuple[Decide, list[Candidate]]:
    """What becomes of a call, and every rule about its tool, the strongest first.

    Args:
        rules: The rules about the tool.
        about: What is known of the call.
        more: Rules of the session.
    """
    verdict = rules.decide(about, more)
    candidates = [
        Candidate(
            rule=rule,
            decides=rule is verdict.rule,
            why=rules.why_not(rule, about) or _why(rule, verdict),
        )
        for rule in rules.with_more(more)
    ]
    return verdict.decide, candidates


def _why(rule: Rule, verdict: Verdict) -> str:
    """What comes of a rule that holds."""
    if rule.lifts is not None:
        return f"answers the question of {rule.lifts!r} in advance"
    if rule is not verdict.rule:
        return f"{verdict.rule.name!r} goes first" if verdict.rule else "no rule decides"
    return "it asks, and was answered with 'always'" if verdict.lifted else "the first that holds"
