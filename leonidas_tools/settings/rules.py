"""Rules as they are set: which calls are allowed, asked about, denied or recorded."""

from enum import Enum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from leonidas_tools.rules.conditions import Condition, Expression, steps_of
from leonidas_tools.rules.rule import Decide, Mode, Rule, Tier
from leonidas_tools.settings.fields import (
    CATEGORY_SCHEMA,
    Duration,
    Name,
    OptionalDuration,
    OptionalNumber,
    Switch,
    category,
    choice,
    choice_schema,
    mapping,
    number,
    unset,
)
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools.metadata import AfterUntrusted, meant_category
from leonidas_tools.tools.tool import ToolCategory, ToolEffect


def _one_or_more(value: Any) -> Any:
    """Return one word, or a list of them."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


def _list_schema(kind: type[Enum]) -> WithJsonSchema:
    schema = choice_schema(kind)
    return WithJsonSchema({"anyOf": [*schema["anyOf"], {"type": "array", "items": schema}]})


_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Words = Annotated[tuple[Name, ...], BeforeValidator(_one_or_more), WithJsonSchema(_TEXTS)]
OnExpiry = Literal["cancel", "proceed"]
_Priority = Annotated[int, Field(ge=0, le=999), BeforeValidator(number)]
_Mode = Annotated[Mode, BeforeValidator(choice(Mode))]


def _category(value: Any) -> ToolCategory | str:
    """Read a category; refuse a misspelt one, since its rule would never apply."""
    read: ToolCategory | str | None = category(value)
    if read is None:
        raise ValueError("is not a category: give a word such as 'python' or 'billing'")
    if (near := meant_category(read)) is not None:
        raise ValueError(f"is not a known category; did you mean {near.value!r}?")
    return read


_Category = Annotated[ToolCategory | str, PlainValidator(_category)]
_Effect = Annotated[ToolEffect, BeforeValidator(choice(ToolEffect))]
_Modes = Annotated[tuple[_Mode, ...], BeforeValidator(_one_or_more), _list_schema(Mode)]
_Categories = Annotated[
    tuple[_Category, ...],
    BeforeValidator(_one_or_more),
    WithJsonSchema(
        {"anyOf": [*CATEGORY_SCHEMA["anyOf"], {"type": "array", "items": CATEGORY_SCHEMA}]}
    ),
]
_Effects = Annotated[tuple[_Effect, ...], BeforeValidator(_one_or_more), _list_schema(ToolEffect)]
_Decision = Annotated[
    Decide, BeforeValidator(choice(Decide)), WithJsonSchema(choice_schema(Decide))
]
AfterUntrustedSetting = Annotated[
    AfterUntrusted,
    BeforeValidator(choice(AfterUntrusted)),
    WithJsonSchema(choice_schema(AfterUntrusted)),
]
SessionMode = Annotated[Mode, BeforeValidator(choice(Mode)), WithJsonSchema(choice_schema(Mode))]


class ConditionSettings(SettingsModel):
    """Conditions on a value in the arguments; all of them must be met.

    Args:
        equals: The value is this.
        matches: This regular expression is found in it.
        above: It is a greater number.
        below: It is a smaller number.
        count_above: It has more items than this.
    """

    equals: Any = None
    matches: Name | None = None
    above: OptionalNumber = None
    below: OptionalNumber = None
    count_above: Annotated[int | None, Field(ge=0), BeforeValidator(number)] = None

    @field_validator("matches")
    @classmethod
    def _is_an_expression(cls, value: str | None) -> str | None:
        if value is not None:
            Expression(value)
        return value

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("asks nothing: name equals, matches, above, below or count_above")
        return self

    def condition(self) -> Condition:
        """Return the condition that the engine reads."""
        return Condition(**{key: getattr(self, key) for key in self.model_fields_set})


_When = Annotated[
    dict[str, Annotated[ConditionSettings, BeforeValidator(mapping)]], BeforeValidator(mapping)
]


class _About(SettingsModel):
    """The calls that a rule is about; a condition that is left out matches all.

    Args:
        tools: Tools by name, with wildcards: one, or a list.
        categories: Categories of tools.
        tags: Words, of which a tool has one.
        effects: Effects of tools: `read`, `idempotent`, `once`.
        servers: MCP servers by name, with wildcards.
        when: What must be true of the arguments: by path, such as `amount`, `to.country` or
            `files[*].name`, a condition.
        users: Users of the session.
        modes: Modes of the session: `ask`, `autonomous`, `read_only`.
    """

    tools: Words = ()
    categories: _Categories = ()
    tags: Words = ()
    effects: _Effects = ()
    servers: Words = ()
    when: _When = Field(default_factory=dict)
    users: Words = ()
    modes: _Modes = ()

    @field_validator("when")
    @classmethod
    def _has_paths(cls, value: dict[str, Any]) -> dict[str, Any]:
        for path in value:
            steps_of(path)
        return value

    def about(self) -> dict[str, Any]:
        """Return the fields of the engine's rule."""
        said = {key: getattr(self, key) for key in _About.model_fields if key != "when"}
        return {**said, "when": {path: each.condition() for path, each in self.when.items()}}


class RuleSettings(_About):
    """A rule: which calls it is about, and what becomes of them.

    Args:
        name: What it is called.
        decide: What becomes of them: `allow`, `ask`, `deny`, or `audit` to allow and record.
        message: What to ask the user, or to tell the model; `{amount}` stands for the argument.
        priority: Which rule decides where several apply: 0 to 999, the greatest.
        deadline: How long its question stays open, instead of `policies.approval.deadline`.
        on_expiry: What becomes of the call then: `cancel` or `proceed`.
    """

    name: Name
    decide: _Decision
    message: Name | None = None
    priority: _Priority = 100
    deadline: OptionalDuration = None
    on_expiry: OnExpiry | None = None

    def rule(self) -> Rule:
        """Return the rule that the engine reads."""
        return Rule(
            name=self.name,
            decide=self.decide,
            message=self.message,
            priority=self.priority,
            tier=Tier.FILE,
            deadline_seconds=self.deadline,
            on_expiry=self.on_expiry,
            **self.about(),
        )


class AlwaysSettings(_About):
    """A question that was answered with "always".

    Args:
        question: The rule whose question it is; what other rules deny or ask stays so.
        fingerprint: The definition of the tool that it was about: server, name, description, schema
            and effect. It applies to no other; without it, to none.
    """

    question: Name
    fingerprint: Name | None = None

    def rule(self, name: str) -> Rule:
        """Return the rule that the engine reads."""
        return Rule(
            name=name,
            decide=Decide.ALLOW,
            tier=Tier.USER,
            lifts=self.question,
            fingerprint=self.fingerprint,
            **self.about(),
        )


class ApprovalSettings(SettingsModel):
    """Settings of approval requests.

    Args:
        deadline: How long a question stays open.
        on_expiry: What happens to the call without an answer: `cancel` or `proceed`.
        trust_model: Whether to accept the model's report that the user has said yes. Without input
            transcription there is no other evidence; leave it off where you can.
        shorten_values: Whether of a value that is too long to be said, the question says the
            beginning, the end and how much is left out. Otherwise such a call cannot be approved by
            voice, only where all of it is shown.
    """

    deadline: Duration = 60.0
    on_expiry: Annotated[OnExpiry, BeforeValidator(unset)] = "cancel"
    trust_model: Switch = False
    shorten_values: Switch = False
