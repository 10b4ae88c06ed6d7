"""Decide calls by rules: sort the rules once for each tool, evaluate them for each call."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.records import record
from leonidas_tools.rules.conditions import Condition, steps_of, values_at
from leonidas_tools.rules.risky import MANY, lists_in
from leonidas_tools.rules.rule import (
    AUTONOMOUS,
    AUTONOMOUS_RISKS,
    CONFIRMING,
    PROGRAM_FILES,
    READ_ONLY,
    REQUIRES_APPROVAL,
    RISKS,
    Decide,
    Mode,
    Rule,
    severity_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from leonidas_tools.rules.subject import Subject


@record
class Verdict:
    """The decision about a call."""

    decide: Decide
    rule: Rule | None = None
    """The rule that decides; `None` if no rule does."""
    lifted: bool = False
    """True if an "always" has answered the question of the rule."""
    outdated: bool = False
    """True if there is an "always" for another definition of the tool."""


@record
class Circumstances:
    """The facts about a call, other than its tool, that rules use."""

    arguments: Mapping[str, Any]
    mode: Mode
    user: str | None = None


_CompiledRule: TypeAlias = tuple[Rule, Callable[[Circumstances], "bool | None"]]
"""A rule, and the function that returns whether it applies to a call; `None` if in doubt."""
_ALLOWED = Verdict(decide=Decide.ALLOW)


class RuleBook:
    """All rules of the settings.

    `rules` are all rules except the built-in ones. With `asks_if_risky`, tools ask that are risky
    by their names or hints.

    Example:
        >>> from leonidas_tools.tools.metadata import ToolEffect
        >>> from leonidas_tools.rules.subject import Subject
        >>> book = RuleBook([Rule(name="no mail", decide=Decide.DENY, tools=["send_*"])])
        >>> mail = Subject(
        ...     names=("send_mail",), category="python", tags=frozenset(), effect=ToolEffect.ONCE
        ... )
        >>> book.for_tool(mail).decide(Circumstances(arguments={}, mode=Mode.ASK)).decide
        <Decide.DENY: 'deny'>
    """

    def __init__(self, rules: Iterable[Rule] = (), *, asks_if_risky: bool = True) -> None:
        self._asks_if_risky = asks_if_risky
        self.rules = in_order([*rules, READ_ONLY])
        self._with_approval = in_order([*self.rules, REQUIRES_APPROVAL, AUTONOMOUS])
        self._with_risks = in_order([*self.rules, RISKS, AUTONOMOUS_RISKS])

    def may_deny(self, mode: Mode) -> bool:
        """Return whether any rule denies calls in a mode."""
        return any(
            rule.decide is Decide.DENY and mode in (rule.modes or (mode,)) for rule in self.rules
        )

    def for_tool(self, subject: Subject) -> ToolRules:
        """Return the rules that name a tool."""
        rules = self._with_risks if subject.asks_about_risks else self.rules
        if subject.requires_approval or (subject.risk and self._asks_if_risky):
            rules = self._with_approval
        elif subject.moves and self._asks_if_risky:
            rules = in_order([*rules, *_bulk_rules(subject)])
        if subject.metadata is not None and subject.metadata.facts is not None:
            rules = in_order([*rules, PROGRAM_FILES])
        if subject.answers_questions:
            rules = in_order([*rules, CONFIRMING])
        return ToolRules(subject, [rule for rule in rules if rule.names(subject)])


def _bulk_rules(subject: Subject) -> Iterator[Rule]:
    """Yield the rules about calls that move many things: one for each argument with a list."""
    schema = {} if subject.metadata is None else subject.metadata.parameters
    for name in lists_in(schema):
        when = {name: Condition(count_above=MANY)}
        yield from (replace(rule, when=when) for rule in (REQUIRES_APPROVAL, AUTONOMOUS))


class ToolRules:
    """The rules that name one tool, the strongest first."""

    __slots__ = ("_in_mode", "_in_session", "_outdated", "_rules", "subject")

    def __init__(self, subject: Subject, rules: Sequence[Rule]) -> None:
        self.subject = subject
        self._outdated = tuple(rule for rule in rules if rule.is_outdated(subject))
        self._rules = tuple(rule for rule in rules if not rule.is_outdated(subject))
        self._in_mode: dict[Mode, Sequence[_CompiledRule]] = {}
        self._in_session: tuple[Mode, tuple[Rule, ...], Sequence[_CompiledRule]] | None = None

    def __iter__(self) -> Any:
        return iter(self._rules)

    def decide(self, about: Circumstances, more: Sequence[Rule] = ()) -> Verdict:
        """Return the decision about a call; `more` are the rules of its session."""
        mode = about.mode
        compiled = self._compile_session(mode, tuple(more)) if more else self._in_mode.get(mode)
        if compiled is None:
            compiled = self._compile_for_mode(mode)
        doubtful: Verdict | None = None
        for rule, applies in compiled:
            if rule.lifts is not None:
                continue
            holds = applies(about)
            if holds is False:
                continue
            verdict = self._verdict_of(rule, compiled, about, more)
            if holds:
                return stricter(doubtful, verdict)
            doubtful = stricter(doubtful, verdict)
        return _ALLOWED if doubtful is None else stricter(doubtful, _ALLOWED)

    def verdict_of(self, rule: Rule, about: Circumstances, more: Sequence[Rule] = ()) -> Verdict:
        """Return the verdict of a rule that applies and is not one of these."""
        mode, more = about.mode, tuple(more)
        compiled = self._compile_session(mode, more) if more else self._compile_for_mode(mode)
        return self._verdict_of(rule, compiled, about, more)

    def _verdict_of(
        self,
        rule: Rule,
        compiled: Sequence[_CompiledRule],
        about: Circumstances,
        more: Sequence[Rule],
    ) -> Verdict:
        """Return the verdict of a rule that applies."""
        if rule.decide is not Decide.ASK:
            return Verdict(decide=rule.decide, rule=rule)
        if any(each.lifts == rule.name and applies(about) is True for each, applies in compiled):
            return Verdict(decide=Decide.AUDIT, rule=rule, lifted=True)
        outdated = any(
            each.lifts == rule.name
            and each.names(self.subject)
            and each.is_outdated(self.subject)
            and (not each.users or about.user in each.users)
            for each in (*self._outdated, *more)
        )
        return Verdict(decide=Decide.ASK, rule=rule, outdated=outdated)

    def _compile_for_mode(self, mode: Mode) -> Sequence[_CompiledRule]:
        """Return the rules that apply in a mode, compiled once for each mode."""
        compiled = self._in_mode.get(mode)
        if compiled is None:
            compiled = self._in_mode[mode] = self._compile(mode, self._rules)
        return compiled

    def _compile_session(self, mode: Mode, more: tuple[Rule, ...]) -> Sequence[_CompiledRule]:
        """Return these rules with those of a session, compiled; the last result is cached."""
        kept = self._in_session
        if kept is None or kept[0] is not mode or kept[1] != more:
            kept = self._in_session = (mode, more, self._compile(mode, self.with_more(more)))
        return kept[2]

    def _compile(self, mode: Mode, rules: Sequence[Rule]) -> Sequence[_CompiledRule]:
        return tuple(
            (r, _matcher(r, self.subject)) for r in rules if r.holds_in(mode, self.subject)
        )

    def with_more(self, more: Sequence[Rule]) -> Sequence[Rule]:
        """Return these rules and those of a session, the strongest first."""
        fitting = [rule for rule in more if rule.fits(self.subject)]
        if not fitting:
            return self._rules
        merged = heapq.merge(in_order(fitting), self._rules, key=_strength, reverse=True)
        return tuple(merged)

    def why_not(self, rule: Rule, about: Circumstances) -> str | None:
        """Return why a rule does not apply to a call; `None` if it does or may."""
        if not rule.holds_in(about.mode, self.subject):
            return f"not in mode {about.mode.value!r}"
        return _unmet_reason(rule, self.subject, about)

    def acts_in(self, mode: Mode) -> bool:
        """Return whether a rule may decide other than `allow` about some call in a mode."""
        return any(rule.decide is not Decide.ALLOW for rule, _ in self._compile_for_mode(mode))

    def always_denies(self, mode: Mode) -> bool:
        """Return whether every call is denied in a mode."""
        for rule, _ in self._compile_for_mode(mode):
            if rule.lifts is None:
                if rule.decide is not Decide.DENY:
                    return False
                if rule.is_global:
                    return True
        return False

    @property
    def may_ask(self) -> bool:
        """Return whether a call may need approval in any mode."""
        return any(self._asks_in(mode) for mode in Mode)

    def _asks_in(self, mode: Mode) -> bool:
        for rule, _ in self._compile_for_mode(mode):
            if rule.lifts is None:
                if rule.decide is Decide.ASK:
                    return True
                if rule.is_global:
                    return False
        return False


def in_order(rules: Iterable[Rule]) -> list[Rule]:
    """Return rules sorted by strength, the strongest first; the sort is stable."""
    return sorted(rules, key=_strength, reverse=True)


def _strength(rule: Rule) -> tuple[int, int, int]:
    return rule.strength


def stricter(doubtful: Verdict | None, other: Verdict) -> Verdict:
    """Return the stricter of the verdict of a rule, if any, and the verdict without it."""
    if doubtful is None or severity_of(doubtful.decide) <= severity_of(other.decide):
        return other
    return doubtful


def _matcher(rule: Rule, subject: Subject) -> Callable[[Circumstances], bool | None]:
    """Return the function that decides whether a rule applies to a call, given the mode."""
    users = rule.users
    when = tuple(
        (steps, condition, _if_missing(rule, subject, steps))
        for path, condition in rule.when.items()
        for steps in (steps_of(path),)
    )

    def applies(about: Circumstances) -> bool | None:
        if users and about.user not in users:
            return False
        holds: bool | None = True
        for steps, condition, if_missing in when:
            met = _is_met(rule, values_at(about.arguments, steps), condition, if_missing)
            if met is False:
                return False
            holds = holds and met
        return holds

    return applies


def _if_missing(rule: Rule, subject: Subject, steps: Sequence[str]) -> bool | None:
    """Return the result of a condition whose path has no value.

    A rule that names a tool in full refers to an argument of that tool. If the tool's schema has no
    such argument, the rule is mistaken or the tool has changed, so the result is in doubt.
    """
    return None if rule.names_in_full(subject) and not subject.describes(steps) else False


def _unmet_reason(rule: Rule, subject: Subject, about: Circumstances) -> str | None:
    """Return why a rule does not apply to a call, given the mode; `None` if it does or may."""
    if rule.users and about.user not in rule.users:
        return f"not for the user {about.user!r}"
    for path, condition in rule.when.items():
        steps = steps_of(path)
        missing = _if_missing(rule, subject, steps)
        if _is_met(rule, values_at(about.arguments, steps), condition, missing) is False:
            return f"not with this {path!r}"
    return None


def _is_met(
    rule: Rule, values: Sequence[Any], condition: Condition, if_missing: bool | None
) -> bool | None:
    """Return whether the values meet a condition; `None` if that is in doubt.

    For a rule that asks or denies, one value is enough; for any other rule, all must meet it.
    """
    if not values:
        return if_missing
    if len(values) == 1:  # the common case
        return condition.holds(values[0])
    met = [condition.holds(value) for value in values]
    if True in met and (rule.holds_back or all(met)):
        return True
    return None if True in met or None in met else False


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
            why=rules.why_not(rule, about) or _explain(rule, verdict),
        )
        for rule in rules.with_more(more)
    ]
    return verdict.decide, candidates


def _explain(rule: Rule, verdict: Verdict) -> str:
    """Return why a rule that applies decides or does not."""
    if rule.lifts is not None:
        return f"answers the question of {rule.lifts!r} in advance"
    if rule is not verdict.rule:
        return f"{verdict.rule.name!r} takes precedence" if verdict.rule else "no rule decides"
    return (
        "it asks, and was answered with 'always'"
        if verdict.lifted
        else "the first rule that applies"
    )
