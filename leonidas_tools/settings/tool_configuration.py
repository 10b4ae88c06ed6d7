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
    """The scheduling of results that the model did not wait for, by kind of result.

    Args:
        ok: The call succeeded.
        error: The call failed.
        late: The connection of the call is closed meanwhile.
        progress: The call still runs; unless this is set, the model receives no progress.
    """

    ok: _When = None
    error: _When = None
    late: _When = None
    progress: _When = None

    def over(self, own: metadata.Scheduling | None) -> metadata.Scheduling:
        """Return this scheduling, completed by the tool's own."""
        words = {
            key: said if (said := getattr(self, key)) is not None else getattr(own, key, None)
            for key in type(self).model_fields
        }
        return metadata.Scheduling(**words)


def _spread(value: Any) -> Any:
    """Apply a single word to every final result."""
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


def merge_scheduling(
    below: SchedulingSettings | None, above: SchedulingSettings
) -> SchedulingSettings:
    """Merge two schedules; `above` overrides `below`."""
    if below is None:
        return above
    return below.model_copy(update={key: getattr(above, key) for key in above.model_fields_set})


class ToolOverrides(SettingsModel):
    """Settings of a tool in one environment.

    `0` and `off` switch a limit off, whether the defaults or the tool itself have set it.

    Args:
        enabled: Whether the tool can be called.
        status: Whether it is active, or why not; `maintenance` tells the model to try again later.
        priority: Which calls run first if not all can run at once: 1 to 5, or a name.
        timeout: The timeout of one attempt: seconds, or text such as `500ms`, `2s`, `1m`. It cannot
            be switched off.
        deadline: The timeout of the whole call, including its waits and retries; `0` or `off` for
            no limit.
        retry_attempts: The maximum number of retries after a failure, from 0 to 20; `0` or `off`
            for none.
        retry_delay: The delay before the first retry; `0` or `off` for none.
        category: The category whose processor runs it: a known category, or any other word.
        retry_backoff: The factor by which each delay is longer than the one before, from 1 to 10; 2
            unless it is set.
        retry_longest_delay: The maximum delay; 10 s unless it is set.
        retry_on: The failures that are retried if a retry can do no harm: `failed`, `unavailable`
            and `timeout`.
        effect: What a call changes: `read`, `idempotent` or `once`.
        lane: Tools of the same lane never write at the same time, for all users together.
        concurrency: The maximum number of its calls that run at once; `0` or `off` for no limit.
        max_result_bytes: The maximum bytes of its result; a longer one is truncated.
        fallback_tools: Tools to try in order, with the same arguments, if this one keeps failing.
        custom_parameters: Values for the tool itself; it reads them as `ctx.parameters`.
        behavior: Whether the model waits for the result: `blocking` or `non_blocking`.
        scheduling: When the model speaks of a result that it did not wait for: `silent`,
            `when_idle` or `interrupt`; one word for every final result, or one for each of `ok`,
            `error`, `late` and `progress`.
        on_cancel: What happens to a running call when the model no longer wants its result: `stop`,
            `finish` or `undo`. Unless it is set, a call with the effect `once` is finished, or
            undone if it can be, and all others are stopped.
        filler_after: How long the silence may last, while the tool runs, before it is filled:
            seconds, text such as `2s`, or `median` for the usual time of the tool; `0` or `off` for
            never.
        filler: The sentence that the model says then.
        repeat_after_resume: Whether a call that the model repeats after a reconnect runs again.
        description: The description for the model, instead of the tool's own.
        requires_approval: Whether a person is asked first.
        untrusted: Whether its results may come from anyone, such as the text of a web page: they
            mark the session that reads them.
        after_untrusted: What happens to its calls in a marked session, if they have an effect and
            arguments that did not come from the user: `ask`, `deny` or `allow`. Unless it is set,
            `policies.after_untrusted` applies.
        cache_seconds: How long a result is cached, only with the effect `read`; `0` or `off` for
            never.
        cache_shared: Whether other processes with the same store use its cached results too.
        stale_if_error: How long after `cache_seconds` a result may replace a failure; `0` or `off`
            for never.
        polling: Whether repeated calls are its purpose: none of them counts as a loop, and equal
            calls of one turn run more than once even if the effect is `once`.
        calls_per_turn: The maximum number of its calls in a session each time the user speaks; `0`
            or `off` for no limit.
        calls_per_minute: The maximum number in any sixty seconds; `0` or `off` for no limit.
        calls_per_session: The maximum number in the session; `0` or `off` for no limit.
        breaker: Whether it has a circuit breaker; if omitted, `policies.breaker` decides.
        max_result_tokens: The maximum length of its result, in estimated tokens; `0` or `off` for
            no limit.
        overflow: Which part of a longer result is kept: its `head`, its `tail`, `both`, or all of
            it, of which the model sees a part and can request more (`spill`).
        collect: Whether the result of a generator is the list of all yielded values, and not its
            last value.
        runs_on: Where it runs: `here`, as a task of a cluster (`ray`), or in a worker (`temporal`),
            where a call has its effect once even if machines fail.
        resources: The resources of a machine that such a task needs: `num_cpus`, `num_gpus`,
            `memory` in bytes, and other resources of the cluster by name.
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
    """The settings of one tool; `None` means the tool's own value.

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
        """Return the custom parameters that are secret by name or by a value of the environment."""
        return secrets_in(self.custom_parameters)

    @functools.cached_property
    def known_secrets(self) -> KnownSecrets:
        """Return the secrets in a form that finds them in the output of the tool."""
        return KnownSecrets(self.secrets)


_NOTHING_SET = ToolConfiguration.model_construct()
"""Copied for each tool, since to construct one with all its defaults takes five times as long."""
_OVERRIDES = ToolOverrides.model_fields.keys()
"""Options that a layer can override: neither `name` nor `environment_specific`."""

ToolConfigurations: TypeAlias = Annotated[
    dict[str, Annotated[ToolConfiguration, BeforeValidator(mapping)]], BeforeValidator(mapping)
]


def merge(
    layers: Iterable[ToolOverrides], hidden: Collection[str] = (), secrets: Collection[str] = ()
) -> ToolConfiguration:
    """Merge layers of settings; later layers override earlier ones.

    Custom parameters are merged by key, and scheduling by kind of result.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        own = {key: getattr(layer, key) for key in layer.model_fields_set & _OVERRIDES}
        parameters = own.pop("custom_parameters", {})
        if own.get("scheduling") is not None:
            own["scheduling"] = merge_scheduling(values.get("scheduling"), own["scheduling"])
        values |= own
        values["custom_parameters"] = {**values.get("custom_parameters", {}), **parameters}
    merged_settings = _NOTHING_SET.model_copy(update=values)
    parameters = values.get("custom_parameters")
    if parameters or secrets:
        # Read for every result: a private attribute would cost four microseconds each time.
        merged_settings.__dict__["secrets"] = (*secrets_in(parameters or {}, hidden), *secrets)
    return merged_settings
