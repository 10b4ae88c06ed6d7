"""Settings of rules: which calls are allowed, asked about, denied or recorded."""

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

from leonidas_tools.approvals.lexicon import ConsentWords, Lexicon, lexicon
from leonidas_tools.approvals.words import words_of
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
    refuse_empty,
)
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools.metadata import guess_category
from leonidas_tools.tools.tool import ToolCategory, ToolEffect


def _to_tuple(value: Any) -> Any:
    """Return a single word as a tuple, `None` as an empty one, and any other value unchanged."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


def _list_schema(kind: type[Enum]) -> WithJsonSchema:
    schema = choice_schema(kind)
    return WithJsonSchema({"anyOf": [*schema["anyOf"], {"type": "array", "items": schema}]})


_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Words = Annotated[tuple[Name, ...], BeforeValidator(_to_tuple), WithJsonSchema(_TEXTS)]
OnExpiry = Literal["cancel", "proceed"]
_Priority = Annotated[int, Field(ge=0, le=999), BeforeValidator(number)]
_Mode = Annotated[Mode, BeforeValidator(choice(Mode))]


def _category(value: Any) -> ToolCategory | str:
    """Read a category; refuse a misspelt one, since its rule would never apply."""
    read: ToolCategory | str | None = category(value)
    if read is None:
        raise ValueError("is not a category: give a word such as 'python' or 'billing'")
    if (near := guess_category(read)) is not None:
        raise ValueError(f"is not a known category; did you mean {near.value!r}?")
    return read


_Category = Annotated[ToolCategory | str, PlainValidator(_category)]
_Effect = Annotated[ToolEffect, BeforeValidator(choice(ToolEffect))]
_Modes = Annotated[tuple[_Mode, ...], BeforeValidator(_to_tuple), _list_schema(Mode)]
_Categories = Annotated[
    tuple[_Category, ...],
    BeforeValidator(_to_tuple),
    WithJsonSchema(
        {"anyOf": [*CATEGORY_SCHEMA["anyOf"], {"type": "array", "items": CATEGORY_SCHEMA}]}
    ),
]
_Effects = Annotated[tuple[_Effect, ...], BeforeValidator(_to_tuple), _list_schema(ToolEffect)]
_Decision = Annotated[
    Decide, BeforeValidator(choice(Decide)), WithJsonSchema(choice_schema(Decide))
]
SessionMode = Annotated[Mode, BeforeValidator(choice(Mode)), WithJsonSchema(choice_schema(Mode))]


class ConditionSettings(SettingsModel):
    """Conditions on a value in the arguments; all of them must be met.

    Args:
        equals: The value equals this.
        matches: This regular expression is found in the value.
        above: The value is a number greater than this.
        below: The value is a number less than this.
        count_above: The value has more items than this.
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
    def _refuse_empty(self) -> Self:
        given = [getattr(self, key) for key in self.model_fields_set - {"equals"}]
        if not self.model_fields_set or None in given:
            raise ValueError("has no condition: set equals, matches, above, below or count_above")
        return self

    def condition(self) -> Condition:
        """Return the condition for the engine."""
        return Condition(**{key: getattr(self, key) for key in self.model_fields_set})


_When = Annotated[
    dict[str, Annotated[ConditionSettings, BeforeValidator(mapping)]], BeforeValidator(mapping)
]


class _About(SettingsModel):
    """The calls that a rule applies to; an omitted condition matches all.

    Args:
        tools: Tools by name, with wildcards: one, or a list.
        categories: Categories of tools.
        tags: Tags, of which a tool has at least one.
        effects: Effects of tools: `read`, `idempotent`, `once`.
        servers: MCP servers by name, with wildcards.
        when: Conditions on the arguments, by path, such as `amount`, `to.country` or
            `files[*].name`.
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

    @field_validator("tools", "categories", "tags", "effects", "servers", "users", "modes", "when")
    @classmethod
    def _refuse_no_names(cls, value: Any) -> Any:
        if not value:
            raise ValueError("is empty: name at least one, or remove the line to match all")
        return value

    @field_validator("when")
    @classmethod
    def _check_paths(cls, value: dict[str, Any]) -> dict[str, Any]:
        for path in value:
            steps_of(path)
        return value

    def about(self) -> dict[str, Any]:
        """Return the fields of the engine's rule."""
        said = {key: getattr(self, key) for key in _About.model_fields if key != "when"}
        return {**said, "when": {path: each.condition() for path, each in self.when.items()}}


class RuleSettings(_About):
    """Matches calls, and decides whether they are allowed, asked about or denied.

    Args:
        name: The name of the rule.
        decide: The decision: `allow`, `ask`, `deny`, or `audit` to allow and record.
        message: The question to the user, or the message to the model; `{amount}` is replaced by
            the argument, `{count}` by the number of items of the list in `when`.
        priority: From 0 to 999; if several rules apply, the one with the highest priority decides.
        deadline: How long its question stays open, instead of `policies.approval.deadline`.
        on_expiry: What happens to the call if nobody answers: `cancel` or `proceed`.
    """

    name: Name
    decide: _Decision
    message: Name | None = None
    priority: _Priority = 100
    deadline: OptionalDuration = None
    on_expiry: OnExpiry | None = None

    def rule(self) -> Rule:
        """Return the rule for the engine."""
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
        question: The rule whose question was answered; decisions of other rules still apply.
        fingerprint: The definition of the tool at that time: server, name, description, schema and
            effect. The answer applies to no other definition, and without a fingerprint to none.
    """

    question: Name
    fingerprint: Name | None = None

    def rule(self, name: str) -> Rule:
        """Return the rule for the engine."""
        return Rule(
            name=name,
            decide=Decide.ALLOW,
            tier=Tier.USER,
            lifts=self.question,
            fingerprint=self.fingerprint,
            **self.about(),
        )


class ConsentSettings(SettingsModel):
    """Adds words to a language, or a language, for the judgement of spoken and typed answers.

    Args:
        consent: Phrases of consent.
        polite: Phrases that may accompany a consent.
        refusal: Phrases that refuse.
        doubt: Phrases that make any answer unclear.
        again: The sentence after a repeated question that tells the user which words count.
    """

    consent: Words = ()  # in YAML, the keys "yes" and "no" would be booleans
    polite: Words = ()
    refusal: Words = ()
    doubt: Words = ()
    again: str = ""

    @field_validator("consent", "polite", "refusal", "doubt")
    @classmethod
    def _check_words(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for phrase in value:
            if not words_of(phrase):
                raise ValueError(f"{phrase!r} has no word")
        return value

    @field_validator("consent")
    @classmethod
    def _refuse_nothing(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for phrase in value:
            if lexicon().refuses(phrase):
                raise ValueError(f"{phrase!r} has a word of refusal, so it can never be a yes")
        return value

    def words(self) -> ConsentWords:
        """Return the words for the judge."""
        return ConsentWords(
            yes=self.consent,
            polite=self.polite,
            no=self.refusal,
            doubt=self.doubt,
            again=self.again,
        )


class ApprovalSettings(SettingsModel):
    """Configures approval requests.

    Args:
        deadline: How long a question stays open.
        on_expiry: What happens to the call if nobody answers: `cancel` or `proceed`.
        trust_model: Whether to accept the model's report that the user has agreed. Without input
            transcription there is no other evidence; leave it off if you can.
        shorten_values: Whether the question shortens a value that is too long for speech to its
            beginning, its end and the length of the rest. Otherwise such a call cannot be approved
            by voice, only where the whole value is shown.
        consent_words: More words by which an answer counts as a yes or a no, by language, such as
            `es`.
    """

    deadline: Duration = 60.0
    on_expiry: Annotated[OnExpiry, BeforeValidator(refuse_empty)] = "cancel"
    trust_model: Switch = False
    shorten_values: Switch = False
    consent_words: Annotated[
        dict[str, Annotated[ConsentSettings, BeforeValidator(mapping)]], BeforeValidator(mapping)
    ] = Field(default_factory=dict)

    def lexicon(self, language: str) -> Lexicon:
        """Return the words by which an answer is judged in a session with this language."""
        return lexicon(language, tuple((k, v.words()) for k, v in self.consent_words.items()))
