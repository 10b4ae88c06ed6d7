"""A rule: the calls that it applies to, and its decision."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from leonidas_tools.results.texts import say
from leonidas_tools.rules.conditions import Condition, steps_of
from leonidas_tools.tools.metadata import ToolEffect, no_such_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leonidas_tools.rules.conditions import Path
    from leonidas_tools.rules.subject import Subject


class Decide(StrEnum):
    """The decisions about a call."""

    ALLOW = "allow"
    AUDIT = "audit"
    ASK = "ask"
    DENY = "deny"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(no_such_word(cls, value))


class Mode(StrEnum):
    """The actions that a session may take without asking."""

    ASK = "ask"
    AUTONOMOUS = "autonomous"
    READ_ONLY = "read_only"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise ValueError(no_such_word(cls, value))


class Tier(IntEnum):
    """The origin of a rule; a higher tier takes precedence over a lower one."""

    BUILTIN = 1
    FILE = 2
    USER = 3
    SESSION = 4


_LISTS = ("tools", "categories", "tags", "effects", "servers", "modes", "users")
_SEVERITY = {Decide.DENY: 3, Decide.ASK: 2, Decide.AUDIT: 1, Decide.ALLOW: 0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A rule; a criterion that is left empty matches everything.

    Args:
        name: The name of the rule.
        decide: The decision about the calls that it applies to.
        tools: Names of tools, with wildcards. An MCP tool is also matched by `server__tool`, and in
            a rule that asks or denies also by its name on the server.
        categories: Categories of tools.
        tags: Tags, of which a tool must have one.
        effects: Effects of tools.
        servers: MCP servers, with wildcards.
        when: Conditions on the arguments, by path.
        modes: Modes of the session.
        users: Users of the session.
        message: The question to the user, or the reason for the model; `{path}` inserts the
            argument.
        priority: The priority within the tier, 0 to 999; the higher takes precedence.
        tier: The origin of the rule.
        lifts: The rule whose question this one answers with "always". Other rules that deny or ask
            are not affected.
        fingerprint: The definition of the tool to which such an answer applies. A changed tool, or
            another tool of that name, needs a new answer.
        deadline_seconds: How long its question stays open; `None` for the value of the settings.
        on_expiry: What happens to the call after that: `cancel` or `proceed`.
    """

    name: str
    decide: Decide
    tools: Sequence[str] = ()
    categories: Sequence[str] = ()
    tags: Sequence[str] = ()
    effects: Sequence[ToolEffect] = ()
    servers: Sequence[str] = ()
    when: Mapping[Path, Condition] = field(default_factory=dict)
    modes: Sequence[Mode] = ()
    users: Sequence[str] = ()
    message: str | None = None
    priority: int = 100
    tier: Tier = Tier.SESSION
    lifts: str | None = None
    fingerprint: str | None = None
    deadline_seconds: float | None = None
    on_expiry: str | None = None

    def __post_init__(self) -> None:
        """Copy all collections, since rules are compiled and cached.

        Raises:
            ValueError: A decision, mode or effect is unknown, or a key of `when` is not a path.
        """
        for path in self.when:
            steps_of(path)
        own: dict[str, Any] = {
            "decide": Decide(self.decide),
            "when": MappingProxyType(dict(self.when)),
            **{name: _to_tuple(getattr(self, name)) for name in _LISTS},
        }
        own["modes"] = tuple(Mode(mode) for mode in own["modes"])
        own["effects"] = tuple(ToolEffect(effect) for effect in own["effects"])
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def strength(self) -> tuple[int, int, int]:
        """Return the sort key of rules: tier, priority, severity."""
        return self.tier, self.priority, _SEVERITY[self.decide]

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        when = {path: condition.to_json() for path, condition in self.when.items()}
        given = {key: value for key, value in values.items() if value not in (None, (), {}, [])}
        return {**given, "tier": self.tier.name.lower(), **({"when": when} if when else {})}

    @property
    def is_global(self) -> bool:
        """Return whether it applies regardless of the arguments and the user."""
        return not self.when and not self.users

    @property
    def holds_back(self) -> bool:
        """Return whether it asks or denies: such a rule applies even in doubt."""
        return self.decide in (Decide.ASK, Decide.DENY)

    def names_in_full(self, subject: Subject) -> bool:
        """Return whether it names the tool without wildcards."""
        return not set(subject.all_names).isdisjoint(self.tools)

    def fits(self, subject: Subject) -> bool:
        """Return whether it may apply to calls of the current definition of the tool."""
        return self.names(subject) and not self.is_outdated(subject)

    def is_outdated(self, subject: Subject) -> bool:
        """Return whether it answers a question about another definition of the tool."""
        return self.lifts is not None and self.fingerprint != subject.fingerprint

    def names(self, subject: Subject) -> bool:
        """Return whether its criteria match the tool, regardless of the tool's definition.

        A rule never asks about the tools that report an answer: its question would need them too.
        """
        if subject.answers_questions and self.decide is Decide.ASK:
            return False
        names = subject.all_names if self.holds_back else subject.names
        return (
            (not self.tools or any(fnmatchcase(n, p) for p in self.tools for n in names))
            and (not self.categories or self._is_of_a_category(subject))
            and (not self.tags or not subject.tags.isdisjoint(self.tags))
            and (not self.effects or subject.effect in self.effects)
            and (not self.servers or self._is_of_server(subject))
        )

    def _is_of_a_category(self, subject: Subject) -> bool:
        return subject.category in self.categories or subject.set_category in self.categories

    def _is_of_server(self, subject: Subject) -> bool:
        """Return whether it matches the tool's server; an "always" does so by its fingerprint."""
        return self.lifts is not None or _is_among(subject.server, self.servers)

    def holds_in(self, mode: Mode, subject: Subject) -> bool:
        """Return whether it applies in a mode.

        In `read_only` a rule that would allow a change applies only if it names that mode.
        """
        if self.modes:
            return mode in self.modes
        if mode is not Mode.READ_ONLY or self.tier is Tier.BUILTIN:
            return True
        return self.decide is Decide.DENY or subject.effect is ToolEffect.READ


def severity_of(decide: Decide) -> int:
    """Return how strict a decision is; greater is stricter."""
    return _SEVERITY[decide]


def _to_tuple(words: str | Sequence[Any]) -> tuple[Any, ...]:
    """Return a tuple; a single string is one item, since its letter `*` would match everything."""
    return (words,) if isinstance(words, str) else tuple(words)


def _is_among(server: str | None, patterns: Sequence[str]) -> bool:
    return server is not None and any(fnmatchcase(server, pattern) for pattern in patterns)


CONFIRM = "confirm_action"
"""The name of the tool by which the model reports a yes or no."""
ANSWER = "answer_question"
"""The name of the tool by which the model reports values that the user has given."""
READ_ONLY = Rule(
    name="read_only",
    decide=Decide.DENY,
    effects=(ToolEffect.IDEMPOTENT, ToolEffect.ONCE),
    modes=(Mode.READ_ONLY,),
    message=say("read_only_session"),
    tier=Tier.BUILTIN,
)
CONFIRMING = Rule(
    name="confirming",
    decide=Decide.ALLOW,
    tools=(CONFIRM, ANSWER),
    categories=("action",),
    tier=Tier.BUILTIN,
    priority=999,
)
"""Reporting an answer changes nothing by itself; the approved call is subject to its own rules."""
REQUIRES_APPROVAL = Rule(
    name="requires_approval", decide=Decide.ASK, modes=(Mode.ASK,), tier=Tier.BUILTIN
)
AUTONOMOUS = Rule(
    name="autonomous", decide=Decide.AUDIT, modes=(Mode.AUTONOMOUS,), tier=Tier.BUILTIN
)
RISKS = Rule(
    name="risks",
    decide=Decide.ASK,
    when={"risks": Condition(count_above=0)},
    modes=(Mode.ASK,),
    tier=Tier.BUILTIN,
)
AUTONOMOUS_RISKS = Rule(
    name="autonomous_risks",
    decide=Decide.AUDIT,
    when=RISKS.when,
    modes=(Mode.AUTONOMOUS,),
    tier=Tier.BUILTIN,
)
PROGRAM_FILES = Rule(
    name="program_files",
    decide=Decide.ASK,
    when={"program_files": Condition(count_above=0)},
    tier=Tier.BUILTIN,
)
"""The question, in every mode, of a call whose facts name files that make other programs run."""
AFTER_UNTRUSTED = Rule(name="after_untrusted", decide=Decide.ASK, tier=Tier.BUILTIN)
"""The question of a call with foreign arguments, in a session that has read untrusted content."""
BUILTIN = (
    READ_ONLY,
    CONFIRMING,
    REQUIRES_APPROVAL,
    AUTONOMOUS,
    RISKS,
    AUTONOMOUS_RISKS,
    PROGRAM_FILES,
)
"""The built-in rules: two for tools with `requires_approval`, three for calls with such facts."""
