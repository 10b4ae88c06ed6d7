"""Which rule decides: rules put in order for each tool, and walked down for each call."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.records import record
from leonidas_tools.rules.conditions import steps_of, values_at
from leonidas_tools.rules.rule import (
    AUTONOMOUS,
    CONFIRMING,
    READ_ONLY,
    REQUIRES_APPROVAL,
    Decide,
    Mode,
    Rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leonidas_tools.rules.conditions import Condition
    from leonidas_tools.rules.subject import Subject


@record
class Verdict:
    """What becomes of a call.

    Args:
        decide: What.
        rule: The rule that says so; `None` where none does.
        lifted: Whether its question was answered in advance.
    """

    decide: Decide
    rule: Rule | None = None
    lifted: bool = False


@record
class Circumstances:
    """What rules can know of a call, besides the tool.

    Args:
        arguments: The validated arguments.
        mode: The mode of the session.
        user: Who the session belongs to.
    """

    arguments: Mapping[str, Any]
    mode: Mode
    user: str | None = None


_Holding: TypeAlias = tuple[Rule, Callable[[Circumstances], bool]]
"""A rule, and what says whether it says something of a call."""
_ALLOWED = Verdict(decide=Decide.ALLOW)


class RuleBook:
    """All rules of the settings.

    Args:
        rules: The rules, besides the built-in ones.

    Example:
        >>> from leonidas_tools.metadata import ToolEffect
        >>> from leonidas_tools.rules.subject import Subject
        >>> book = RuleBook([Rule(name="no mail", decide=Decide.DENY, tools=["send_*"])])
        >>> mail = Subject(
        ...     names=("send_mail",), category="python", tags=frozenset(), effect=ToolEffect.ONCE
        ... )
        >>> book.for_tool(mail).decide(Circumstances(arguments={}, mode=Mode.ASK)).decide
        <Decide.DENY: 'deny'>
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = in_order([*rules, READ_ONLY, CONFIRMING])
        self._with_approval = in_order([*self.rules, REQUIRES_APPROVAL, AUTONOMOUS])

    def may_deny(self, mode: Mode) -> bool:
        """Whether a rule denies anything in a mode."""
        return any(
            rule.decide is Decide.DENY and mode in (rule.modes or (mode,)) for rule in self.rules
        )

    def for_tool(self, subject: Subject) -> ToolRules:
        """The rules that are about a tool."""
        rules = self._with_approval if subject.requires_approval else self.rules
        return ToolRules(subject, [rule for rule in rules if rule.fits(subject)])


class ToolRules:
    """The rules that are about one tool, the strongest first.

    Args:
        subject: The tool.
        rules: Its rules, in order.
    """

    __slots__ = ("_in_mode", "_in_session", "_rules", "subject")

    def __init__(self, subject: Subject, rules: Sequence[Rule]) -> None:
        self.subject = subject
        self._rules = tuple(rules)
        self._in_mode: dict[Mode, Sequence[_Holding]] = {}
        self._in_session: tuple[Mode, tuple[Rule, ...], Sequence[_Holding]] | None = None

    def __iter__(self) -> Any:
        return iter(self._rules)

    def decide(self, about: Circumstances, more: Sequence[Rule] = ()) -> Verdict:
        """What becomes of a call.

        Args:
            about: What is known of it.
            more: Rules of the session.
        """
        mode = about.mode
        holding = self._with_session(mode, tuple(more)) if more else self._in_mode.get(mode)
        if holding is None:
            holding = self._holding(mode)
        for rule, speaks in holding:
            if rule.lifts is not None or not speaks(about):
                continue
            if rule.decide is Decide.ASK and _is_lifted(rule, holding, about):
                return Verdict(decide=Decide.AUDIT, rule=rule, lifted=True)
            return Verdict(decide=rule.decide, rule=rule)
        return _ALLOWED

    def _holding(self, mode: Mode) -> Sequence[_Holding]:
        """The rules that hold in a mode; found out once, since a mode lasts for many calls."""
        holding = self._in_mode.get(mode)
        if holding is None:
            holding = self._in_mode[mode] = self._compiled(mode, self._rules)
        return holding

    def _with_session(self, mode: Mode, more: tuple[Rule, ...]) -> Sequence[_Holding]:
        """The same with the rules of a session; those of the last are kept."""
        kept = self._in_session
        if kept is None or kept[0] is not mode or kept[1] != more:
            kept = self._in_session = (mode, more, self._compiled(mode, self.with_more(more)))
        return kept[2]

    def _compiled(self, mode: Mode, rules: Sequence[Rule]) -> Sequence[_Holding]:
        return tuple((r, _speaker(r)) for r in rules if r.holds_in(mode, self.subject))

    def with_more(self, more: Sequence[Rule]) -> Sequence[Rule]:
        """The rules and those of a session, the strongest first."""
        fitting = [rule for rule in more if rule.fits(self.subject)]
        if not fitting:
            return self._rules
        merged = heapq.merge(in_order(fitting), self._rules, key=_strength, reverse=True)
        return tuple(merged)

    def why_not(self, rule: Rule, about: Circumstances) -> str | None:
        """Why a rule says nothing of a call; `None` where it does say something."""
        if not rule.holds_in(about.mode, self.subject):
            return f"not in mode {about.mode.value!r}"
        return _unmet(rule, about)

    def acts_in(self, mode: Mode) -> bool:
        """Whether any call may meet with anything but being allowed, in a mode."""
        return any(rule.decide is not Decide.ALLOW for rule, _ in self._holding(mode))

    def always_denies(self, mode: Mode) -> bool:
        """Whether every call is denied, in a mode."""
        for rule, _ in self._holding(mode):
            if rule.lifts is None:
                if rule.decide is not Decide.DENY:
                    return False
                if rule.is_global:
                    return True
        return False

    @property
    def may_ask(self) -> bool:
        """Whether a call may be asked about, in any mode."""
        return any(self._asks_in(mode) for mode in Mode)

    def _asks_in(self, mode: Mode) -> bool:
        for rule, _ in self._holding(mode):
            if rule.lifts is None:
                if rule.decide is Decide.ASK:
                    return True
                if rule.is_global:
                    return False
        return False


def in_order(rules: Iterable[Rule]) -> list[Rule]:
    """Rules, the strongest first; of equal ones the first stays first."""
    return sorted(rules, key=_strength, reverse=True)


def _strength(rule: Rule) -> tuple[int, int, int]:
    return rule.strength


def _speaker(rule: Rule) -> Callable[[Circumstances], bool]:
    """Says whether a rule that holds in the mode says something of a call."""
    users = rule.users
    when = tuple((steps_of(path), condition) for path, condition in rule.when.items())

    def speaks(about: Circumstances) -> bool:
        if users and about.user not in users:
            return False
        for steps, condition in when:
            if not _is_met(rule, values_at(about.arguments, steps), condition):
                return False
        return True

    return speaks


def _is_lifted(asking: Rule, holding: Sequence[_Holding], about: Circumstances) -> bool:
    """Whether the question of a rule was answered in advance."""
    return any(rule.lifts == asking.name and speaks(about) for rule, speaks in holding)


def _unmet(rule: Rule, about: Circumstances) -> str | None:
    """Why a rule that holds in the mode says nothing of a call; `None` where it says something."""
    if rule.users and about.user not in rule.users:
        return f"not for the user {about.user!r}"
    for path, condition in rule.when.items():
        if not _is_met(rule, values_at(about.arguments, steps_of(path)), condition):
            return f"not with this {path!r}"
    return None


def _is_met(rule: Rule, values: Iterable[Any], condition: Condition) -> bool:
    """Whether a condition of a rule holds of any value.

    In doubt it does, but only where that lets nothing through.
    """
    in_doubt = False
    for value in values:
        met = condition.holds(value)
        if met:
            return True
        in_doubt = in_doubt or met is None
    return in_doubt and rule.decide is not Decide.ALLOW
