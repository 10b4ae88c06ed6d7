"""One rule: which calls it is about, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from leonidas_tools.metadata import ToolEffect
from leonidas_tools.rules.conditions import steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leonidas_tools.rules.conditions import Condition, Path
    from leonidas_tools.rules.subject import Subject


class Decide(StrEnum):
    """What becomes of a call."""

    ALLOW = "allow"
    AUDIT = "audit"
    ASK = "ask"
    DENY = "deny"


class Mode(StrEnum):
    """How much a session may do by itself."""

    ASK = "ask"
    AUTONOMOUS = "autonomous"
    READ_ONLY = "read_only"


class Tier(IntEnum):
    """Who has made a rule; a higher tier goes before a lower one."""

    BUILTIN = 1
    FILE = 2
    USER = 3
    SESSION = 4


_LISTS = ("tools", "categories", "tags", "effects", "servers", "modes", "users")
_SEVERITY = {Decide.DENY: 3, Decide.ASK: 2, Decide.AUDIT: 1, Decide.ALLOW: 0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule; what it does not name may be anything.

    Args:
        name: What it is called.
        decide: What becomes of the calls it is about.
        tools: Own names of tools, with wildcards; of an MCP tool also `server__tool`, and where
            it asks or denies also what the server calls it.
        categories: Categories of tools.
        tags: Words, of which a tool has one.
        effects: Effects of tools.
        servers: MCP servers, with wildcards.
        when: What must be true of the arguments: by path, a condition.
        modes: Modes of the session.
        users: Users of the session.
        message: What to ask or to say, with `{path}` for what stands in the arguments.
        priority: Within its tier: 0 to 999, the greater goes first.
        tier: Who has made it.
        lifts: The rule whose question this one answers in advance. It answers that question only:
            what another rule denies or asks stays so.
        deadline_seconds: How long its question may stay open; `None` leaves it to the settings.
        on_expiry: What becomes of the call then: `cancel` or `proceed`.
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
    deadline_seconds: float | None = None
    on_expiry: str | None = None

    def __post_init__(self) -> None:
        """Shares nothing that can be changed: what rules say is compiled, and kept.

        Raises:
            ValueError: There is no such decision, mode or effect, or what stands in `when` is not
                a path.
        """
        for path in self.when:
            steps_of(path)
        own: dict[str, Any] = {
            "decide": Decide(self.decide),
            "when": MappingProxyType(dict(self.when)),
            **{name: _listed(getattr(self, name)) for name in _LISTS},
        }
        own["modes"] = tuple(Mode(mode) for mode in own["modes"])
        own["effects"] = tuple(ToolEffect(effect) for effect in own["effects"])
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def strength(self) -> tuple[int, int, int]:
        """What orders rules: tier, priority, severity."""
        return self.tier, self.priority, _SEVERITY[self.decide]

    def to_json(self) -> dict[str, Any]:
        """The rule as plain JSON."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        when = {path: condition.to_json() for path, condition in self.when.items()}
        told = {key: value for key, value in said.items() if value not in (None, (), {}, [])}
        return {**told, "tier": self.tier.name.lower(), **({"when": when} if when else {})}

    @property
    def is_global(self) -> bool:
        """Whether it holds whatever the arguments are and whoever speaks."""
        return not self.when and not self.users

    def fits(self, subject: Subject) -> bool:
        """Whether it is about a tool, whatever the call."""
        holds_back = self.decide in (Decide.ASK, Decide.DENY)
        names = subject.all_names if holds_back else subject.names
        return (
            (not self.tools or any(fnmatchcase(n, p) for p in self.tools for n in names))
            and (not self.categories or subject.category in self.categories)
            and (not self.tags or not subject.tags.isdisjoint(self.tags))
            and (not self.effects or subject.effect in self.effects)
            and (not self.servers or _is_among(subject.server, self.servers))
        )

    def holds_in(self, mode: Mode, subject: Subject) -> bool:
        """Whether it holds in a mode.

        In `read_only` what would let a change through holds only where it names that mode.
        """
        if self.modes:
            return mode in self.modes
        if mode is not Mode.READ_ONLY or self.tier is Tier.BUILTIN:
            return True
        return self.decide is Decide.DENY or subject.effect is ToolEffect.READ


def _listed(words: str | Sequence[Any]) -> tuple[Any, ...]:
    """A word by itself is one, and not its letters: a `*` among them would stand for everything."""
    return (words,) if isinstance(words, str) else tuple(words)


def _is_among(server: str | None, patterns: Sequence[str]) -> bool:
    return server is not None and any(fnmatchcase(server, pattern) for pattern in patterns)


CONFIRM = "confirm_action"
"""The tool by which the model tells whether the user has agreed."""
ANSWER = "answer_question"
"""The tool by which the model tells what the user has answered to a call that wants to know."""
READ_ONLY = Rule(
    name="read_only",
    decide=Decide.DENY,
    effects=(ToolEffect.IDEMPOTENT, ToolEffect.ONCE),
    modes=(Mode.READ_ONLY,),
    message="This session is read-only: nothing may be changed.",
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
"""An answer to a question changes nothing by itself; what it lets run is held to its own rules."""
REQUIRES_APPROVAL = Rule(
    name="requires_approval", decide=Decide.ASK, modes=(Mode.ASK,), tier=Tier.BUILTIN
)
AUTONOMOUS = Rule(
    name="autonomous", decide=Decide.AUDIT, modes=(Mode.AUTONOMOUS,), tier=Tier.BUILTIN
)
BUILTIN = (READ_ONLY, CONFIRMING, REQUIRES_APPROVAL, AUTONOMOUS)
"""The rules that are there without being set; the last two only for tools that say so."""
