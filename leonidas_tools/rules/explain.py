"""Explain a decision: list every rule that names the tool, and why it decides or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.rules.engine import Circumstances, ToolRules, Verdict
    from leonidas_tools.rules.rule import Decide, Rule


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A rule that names the tool of a call, and why it decides or does not."""

    rule: Rule
    decides: bool
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return the candidate as plain JSON."""
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
    """Return the decision about a call, and every rule that names its tool, the strongest first."""
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
    """Return why a rule that applies decides or does not."""
    if rule.lifts is not None:
        return f"answers the question of {rule.lifts!r} in advance"
    if rule is not verdict.rule:
        return f"{verdict.rule.name!r} goes first" if verdict.rule else "no rule decides"
    return "it asks, and was answered with 'always'" if verdict.lifted else "the first that holds"
