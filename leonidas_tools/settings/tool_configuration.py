"""Settings of one tool, and how several layers are merged."""

import dataclasses
import functools
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, create_model

from leonidas_tools.redaction import KnownSecrets, secrets_in
from leonidas_tools.settings.fields import (
    Backoff,
    Category,
    CountOrOff,
    DurationOrOff,
    FillerAfter,
    Name,
    Names,
    OptionalCount,
    OptionalDelay,
    OptionalDuration,
    OptionalSwitch,
    OptionalTimeLimit,
    Parameters,
    Retries,
    Switch,
    choice,
    choice_schema,
    mapping,
    optional_choice,
)
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools import metadata
from leonidas_tools.tools.metadata import ToolScheduling

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
        words = {} if own is None else dataclasses.asdict(own)
        return metadata.Scheduling(**words | self.model_dump(exclude_none=True))


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


_TYPES: Mapping[Any, Any] = {
    metadata.parse_backoff: Backoff,
    metadata.parse_category: Category,
    metadata.parse_count: OptionalCount,
    metadata.parse_count_or_off: CountOrOff,
    metadata.parse_delay: OptionalDelay,
    metadata.parse_failures: tuple[metadata.RetryableFailure, ...] | None,
    metadata.parse_filler_after: FillerAfter,
    metadata.parse_flag: OptionalSwitch,
    metadata.parse_names: Names | None,
    metadata.parse_resources: dict[str, Annotated[float, Field(ge=0)]] | None,
    metadata.parse_retries: Retries,
    metadata.parse_scheduling: Scheduling,
    metadata.parse_seconds: OptionalDuration,
    metadata.parse_seconds_or_off: DurationOrOff,
    metadata.parse_name: Name | None,
    metadata.parse_text: str | None,
    metadata.parse_timeout: OptionalTimeLimit,
}
"""The type of a setting, by the function that parses the argument of `@tool`."""


def _setting(option: metadata.Option) -> Any:
    """Return the type and the default of the setting of an option."""
    read = option.read
    kind = optional_choice(read) if isinstance(read, type) else _TYPES[read]
    return Annotated[kind, Field(description=option.doc.replace("`", ""))], None


class _ToolSettings(SettingsModel):
    """Settings of a tool that its code cannot set.

    Args:
        enabled: Whether the tool can be called.
        custom_parameters: Values for the tool itself; it reads them as `ctx.parameters`.
        cache_shared: Whether other processes with the same store use its cached results too.
    """

    enabled: Switch = True
    custom_parameters: Parameters = Field(default={}, repr=False)
    cache_shared: OptionalSwitch = None

    if TYPE_CHECKING:  # the options, which `ToolOptions` declares

        def __init__(self, **settings: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...


if TYPE_CHECKING:
    ToolOverrides = _ToolSettings
else:
    ToolOverrides = create_model(
        "ToolOverrides",
        __base__=_ToolSettings,
        __doc__="""Settings of a tool in one environment.

    `0` and `off` switch a limit off, whether the defaults or the tool itself have set it.
    """,
        __module__=__name__,
        **{each.key: _setting(each) for each in metadata.OPTIONS.values() if each.key},
    )


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
