"""Check rules against the registered tools: a rule that can never decide is an error."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from leonidas_tools.approvals.wording import places_in
from leonidas_tools.rules.conditions import steps_of
from leonidas_tools.rules.engine import RuleBook
from leonidas_tools.rules.rule import REQUIRES_APPROVAL, Mode
from leonidas_tools.rules.subject import Subject, subject_of
from leonidas_tools.settings.explain import closest
from leonidas_tools.settings.finding import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.tools.tool import Tool

_ANY = "*"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """A tool, as rules see it, and the names of its parameters."""

    subject: Subject
    parameters: Collection[str]


def check_rules(
    settings: Settings, known_tools: Mapping[str, Tool[..., Any]], *, more_may_come: bool
) -> list[Finding]:
    """Return what in the rules can never apply, or never decide."""
    if not settings.policies.rules and not settings.policies.always:
        return []
    known = [
        _Known(
            subject=subject_of(tool.metadata, settings.for_tool(name, tool.origin)),
            parameters=tool.metadata.parameters.get("properties", {}),
        )
        for name, tool in known_tools.items()
    ]
    return list(_RuleCheck(settings, known, more_may_come=more_may_come).findings())


class _RuleCheck:
    def __init__(self, settings: Settings, known: list[_Known], *, more_may_come: bool) -> None:
        self._settings = settings
        self._known = known
        self._book = RuleBook(settings.policies.all_rules())
        self._unknown: Severity = "warning" if more_may_come else "error"

    def findings(self) -> Iterator[Finding]:
        policies = self._settings.policies
        for index, each in enumerate(policies.rules):
            yield from self._rule(f"policies.rules.{index}", each.rule())
        questions = [REQUIRES_APPROVAL.name, *(rule.name for rule in policies.rules)]
        for name, always in policies.always.items():
            key = f"policies.always.{name}"
            yield from self._rule(key, always.rule(name))
            if always.question not in questions:
                message = f"there is no rule {always.question!r}{_hint(always.question, questions)}"
                yield Finding(severity="error", key=f"{key}.question", message=message)
            else:
                yield from self._outdated(key, always.rule(name))

    def _outdated(self, key: str, rule: Rule) -> Iterator[Finding]:
        named = [each.subject for each in self._known if rule.names(each.subject)]
        if named and all(rule.is_outdated(subject) for subject in named):
            message = "it was about another definition of the tool: the user is asked again"
            yield Finding(severity="warning", key=f"{key}.fingerprint", message=message)

    def _rule(self, key: str, rule: Rule) -> Iterator[Finding]:
        unknown = [*self._names(key, rule)]
        yield from unknown
        fitting = [known for known in self._known if rule.names(known.subject)]
        if fitting:
            yield from self._parameters(key, rule, fitting)
            yield from self._shadow(key, rule, [known.subject for known in fitting])
        elif not unknown:
            message = "no tool meets all conditions of this rule: it never applies"
            yield Finding(severity=self._unknown, key=key, message=message)

    def _names(self, key: str, rule: Rule) -> Iterator[Finding]:
        subjects = [known.subject for known in self._known]
        tools = [name for subject in subjects for name in subject.all_names]
        tags = {tag for subject in subjects for tag in subject.tags}
        yield from _unknown(f"{key}.tools", "tool", rule.tools, tools, self._unknown)
        yield from _unknown(f"{key}.tags", "tool with the tag", rule.tags, tags, self._unknown)
        servers = list(self._settings.mcp_servers)
        yield from _unknown(f"{key}.servers", "MCP server", rule.servers, servers, "error")

    def _parameters(self, key: str, rule: Rule, fitting: list[_Known]) -> Iterator[Finding]:
        parameters = {name for known in fitting for name in known.parameters}
        for path in rule.when:
            steps = steps_of(path)
            without = [each.subject for each in fitting if not each.subject.describes(steps)]
            if len(without) == len(fitting):
                first = steps[0]
                what = f"a parameter {first!r}{_hint(first, parameters)}"
                if first in parameters or first == _ANY:
                    what = f"a value at {path!r}"
                message = f"none of its tools has {what}"
                yield Finding(severity="error", key=f"{key}.when.{path}", message=message)
                continue
            for subject in without:
                if rule.holds_back and rule.names_in_full(subject):
                    message = (
                        f"{subject.names[0]!r} has no value at {path!r}: the rule always holds"
                    )
                    yield Finding(severity="warning", key=f"{key}.when.{path}", message=message)
        for path in places_in(rule.message or ""):
            first = path.partition(".")[0].partition("[")[0]
            if first not in parameters:
                message = f"none of its tools has a parameter {first!r}{_hint(first, parameters)}"
                yield Finding(severity="warning", key=f"{key}.message", message=message)

    def _shadow(self, key: str, rule: Rule, subjects: list[Subject]) -> Iterator[Finding]:
        """Yield a rule before which, for all it is about, another one has decided already."""
        before: list[str] = []
        for subject in subjects:
            for mode in Mode:
                if rule.holds_in(mode, subject):
                    decides = self._decides_before(rule, subject, mode)
                    if decides is None:
                        return
                    before.append(decides)
        if before:
            names = " and ".join(repr(name) for name in dict.fromkeys(before))
            message = (
                f"it never applies, since {names} decides first: "
                "raise its priority or remove one of them"
            )
            yield Finding(severity="warning", key=key, message=message)

    def _decides_before(self, rule: Rule, subject: Subject, mode: Mode) -> str | None:
        if rule.lifts is not None:
            return None
        for other in self._book.for_tool(subject):
            if other.name == rule.name and other.tier is rule.tier:
                return None
            if other.is_global and other.lifts is None and other.holds_in(mode, subject):
                name: str = other.name
                return name
        return None


def _unknown(
    key: str, what: str, patterns: Iterable[str], known: Collection[str], severity: Severity
) -> Iterator[Finding]:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            message = f"there is no {what} {pattern!r}{_hint(pattern, known)}"
            yield Finding(severity=severity, key=key, message=message)


def _hint(name: str, known: Collection[str]) -> str:
    suggestion = closest(name, list(known))
    return f"; did you mean {suggestion!r}?" if suggestion else ""
