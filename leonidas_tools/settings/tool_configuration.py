"""Settings of one tool, and how several layers are merged."""

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from leonidas_tools.redaction import KnownSecrets, secrets_in
from leonidas_tools.settings.fields import (
    Backoff,
    Behavior,
    Category,
    CountOrOff,
    DurationOrOff,
    Effect,
    FillerAfter,
    Name,
    Names,
    OnCancelled,
    OptionalCount,
    OptionalDelay,
    OptionalDuration,
    OptionalSwitch,
    OptionalTimeLimit,
    OverflowsTo,
    Parameters,
    Priority,
    ReadsUntrusted,
    Retries,
    RunsIn,
    Status,
    Switch,
    choice,
    choice_schema,
    mapping,
)
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools import metadata
from leonidas_tools.tools.tool import ToolScheduling

_read = choice(ToolScheduling)
_WORDS = choice_schema(ToolScheduling)
_When = Annotated[ToolScheduling | None, BeforeValidator(_read), WithJsonSchema(_WORDS)]


class SchedulingSettings(SettingsModel):
    """The scheduling of answers that the model did not wait for, by kind of answer.

    Args:
        ok: The tool did what it was asked.
        error: It did not.
        late: The connection that asked is closed meanwhile.
        progress: It is not done yet; unless this is set, the model hears of no progress.
    """

    ok: _When = None
    error: _When = None
    late: _When = None
    progress: _When = None

    def over(self, own: metadata.Scheduling | None) -> metadata.Scheduling:
        """Return the merged scheduling where a tool has its own."""
        words = {
            key: said if (said := getattr(self, key)) is not None else getattr(own, key, None)
            for key in type(self).model_fields
        }
        return metadata.Scheduling(**words)


def _spread(value: Any) -> Any:
    """Spread one word over every final answer."""
    if value is None or isinstance(value, Mapping | BaseModel):
        return value
    if isinstance(value, metadata.Scheduling):
        return {key: getattr(value, key) for key in SchedulingSettings.model_fields}
    word = _read(value)
    return None if word is None else dict.fromkeys(metadata.FINAL_ANSWERS, word)


Scheduling = Annotated[
    SchedulingSettings | None,
    BeforeValidator(_spread),
    WithJsonSchema(
        {
            "anyOf": [
                *_WORDS["anyOf"],
                {
                    "type": "object",
                    "properties": dict.fromkeys(("ok", "error", "late", "progress"), _WORDS),
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def merged(below: SchedulingSettings | None, above: SchedulingSettings) -> SchedulingSettings:
    """Merge two schedules; the first wins where set."""
    if below is None:
        return above
    return below.model_copy(update={key: getattr(above, key) for key in above.model_fields_set})


class ToolOverrides(SettingsModel):
    """Settings of a tool that hold in one environment.

    `0` and `off` switch a limit off, whether the defaults or the tool itself have set it.

    Args:
        enabled: Whether the tool can be called.
        status: Whether it is active, or why not; `maintenance` tells the model to try again later.
        priority: Who goes first when not everything can run at once: 1 to 5, or its name.
        timeout: How long one attempt may take: seconds, or text such as `500ms`, `2s`, `1m`. It
            cannot be switched off.
        deadline: How long the whole call may take, its waits and retries included; `0` or
            `off` for no limit.
        retry_attempts: How often it is tried again after a failure, from 0 to 20; `0` or
            `off` for never.
        retry_delay: How long to wait before the first retry; `0` or `off` for no wait.
        category: Which processor runs it: a known category, or any other word.
        retry_backoff: By how much each delay is longer than the one before, from 1 to 10; 2 unless
            it is set.
        retry_longest_delay: No delay is longer than this; 10 s unless it is set.
        retry_on: Which failures are tried again, where trying again can do no harm: `failed`,
            `unavailable` and `timeout`.
        effect: What a call changes: `read`, `idempotent` or `once`.
        lane: Tools of the same lane never write at the same time.
        concurrency: How many calls of this tool may run at once; `0` or `off` for no limit.
        max_result_bytes: How long its answer may be; a longer one is cut.
        fallback_tools: Tools to try in turn, with the same arguments, when this one stays down.
        custom_parameters: Values for the tool itself; it reads them as `ctx.parameters`.
        behavior: Whether the model waits for the answer: `blocking` or `non_blocking`.
        scheduling: When the model speaks of an answer it did not wait for: `silent`, `when_idle`
            or `interrupt`; one word for every final answer, or a word for each of `ok`, `error`,
            `late` and `progress`.
        on_cancel: What happens to a running call when the model no longer wants its answer:
            `stop`, `finish` or `undo`. Unless it is set, what happens only once is finished, or
            undone where it can be, and all else is stopped.
        filler_after: After how much silence it is filled while the tool runs: seconds, text such
            as `2s`, or `median` for as long as the tool usually takes; `0` or `off` for never.
        filler: What the model is to say then, in a sentence.
        repeat_after_resume: Whether a call that the model makes again after a reconnect runs again.
        description: What the model reads about the tool, instead of its own description.
        requires_approval: Whether a person is asked first.
        untrusted: Whether its results may come from anyone, such as the text of a web page: they
            mark the session that reads them.
        after_untrusted: What happens to its calls in a session so marked, if they have an effect
            and arguments that did not come from the user: `ask`, `deny` or `allow`; unless it is
            set, `policies.after_untrusted` says so for all tools.
        cache_seconds: How long a result may be used again, only with the effect `read`; `0` or
            `off` for never.
        cache_shared: Whether other processes with the same store use its results again too.
        stale_if_error: How long beyond that it may replace a failure; `0` or `off` for
            never.
        polling: Whether asking again and again is its purpose: no repeat of it counts as a loop.
        calls_per_turn: How many calls of it a session may make each time the user speaks; `0` or
            `off` for no limit.
        calls_per_minute: How many in any sixty seconds; `0` or `off` for no limit.
        calls_per_session: How many in all; `0` or `off` for no limit.
        breaker: Whether it has a circuit breaker; when left out, `policies.breaker` decides for all
            tools.
        max_result_tokens: How long its result may be, in tokens, as well as they can be guessed;
            `0` or `off` for no limit.
        overflow: What is kept of a longer one: its `head`, its `tail`, `both`, or all of it, of
            which the model sees a part and can ask for more (`spill`).
        collect: Whether the result of a generator is the list of all that it yields, and not its
            last value.
        runs_on: Where it runs: `here`, as a task of a cluster (`ray`), or in a worker (`temporal`),
            where a call has one effect although machines die.
        resources: What such a task needs of a machine: `num_cpus`, `num_gpus`, `memory` in bytes,
            and the resources that the cluster has by other names.
        tags: Words to find it by.
    """

    enabled: Switch = True
    status: Status = None
    priority: Priority = None
    timeout: OptionalTimeLimit = None
    deadline: DurationOrOff = None
    retry_attempts: Retries = None
    retry_delay: OptionalDelay = None
    retry_backoff: Backoff = None
    retry_longest_delay: OptionalDuration = None
    retry_on: tuple[Literal["failed", "unavailable", "timeout"], ...] | None = None
    category: Category = None
    effect: Effect = None
    lane: Name | None = None
    concurrency: CountOrOff = None
    max_result_bytes: OptionalCount = None
    fallback_tools: Names | None = None
    custom_parameters: Parameters = Field(default={}, repr=False)
    behavior: Behavior = None
    scheduling: Scheduling = None
    on_cancel: OnCancelled = None
    filler_after: FillerAfter = None
    filler: Name | None = None
    repeat_after_resume: OptionalSwitch = None
    description: str | None = None
    requires_approval: OptionalSwitch = None
    untrusted: OptionalSwitch = None
    after_untrusted: ReadsUntrusted = None
    cache_seconds: DurationOrOff = None
    cache_shared: OptionalSwitch = None
    stale_if_error: DurationOrOff = None
    polling: OptionalSwitch = None
    calls_per_turn: CountOrOff = None
    calls_per_minute: CountOrOff = None
    calls_per_session: CountOrOff = None
    breaker: OptionalSwitch = None
    max_result_tokens: CountOrOff = None
    overflow: OverflowsTo = None
    collect: OptionalSwitch = None
    runs_on: RunsIn = None
    resources: dict[str, Annotated[float, Field(ge=0)]] | None = None
    tags: Names | None = None


class ToolConfiguration(ToolOverrides):
    """The settings of one tool; `None` stands for the tool's own value.

    Args:
        environment_specific: Other values for some environments, by the environment's name.

    Example:
        >>> settings = ToolConfiguration(timeout="500ms", priority="High")
        >>> settings.timeout, settings.priority
        (0.5, <ToolPriority.HIGH: 2>)
    """

    environment_specific: Annotated[
        dict[str, Annotated[ToolOverrides, BeforeValidator(mapping)]], BeforeValidator(mapping)
    ] = Field(default={})

    @functools.cached_property
    def secrets(self) -> tuple[str, ...]:
        """Return the secret custom parameters: by name, or with a value of the environment."""
        return secrets_in(self.custom_parameters)

    @functools.cached_property
    def known_secrets(self) -> KnownSecrets:
        """Return the same, to be found in what a tool says."""
        return KnownSecrets(self.secrets)


_OVERRIDES = ToolOverrides.model_fields.keys()
"""Options that can be overridden: neither a server's tool name nor what the environment sets."""

ToolConfigurations: TypeAlias = Annotated[
    dict[str, Annotated[ToolConfiguration, BeforeValidator(mapping)]], BeforeValidator(mapping)
]


def merge(
    layers: Iterable[ToolOverrides], hidden: Collection[str] = (), secrets: Collection[str] = ()
) -> ToolConfiguration:
    """Lay settings over one another, later ones on top.

    Custom parameters are merged by key, scheduling by what is scheduled.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        own = {key: getattr(layer, key) for key in layer.model_fields_set & _OVERRIDES}
        parameters = own.pop("custom_parameters", {})
        if own.get("scheduling") is not None:
            own["scheduling"] = merged(values.get("scheduling"), own["scheduling"])
        values |= own
        values["custom_parameters"] = {**values.get("custom_parameters", {}), **parameters}
    merged_settings = ToolConfiguration.model_construct(**values)
    parameters = values.get("custom_parameters")
    if parameters or secrets:
        # What is read with every answer: a private attribute would cost each four microseconds.
        merged_settings.__dict__["secrets"] = (*secrets_in(parameters or {}, hidden), *secrets)
    return merged_settings
