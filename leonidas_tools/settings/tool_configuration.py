"""What can be set for one tool, and how settings are laid over one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from leonidas_tools.settings.fields import (
    Behavior,
    Effect,
    Name,
    Names,
    OptionalCount,
    OptionalDuration,
    OptionalSwitch,
    Parameters,
    Priority,
    Retries,
    Scheduling,
    Status,
    Switch,
    mapping,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class Model(BaseModel):
    """Settings: frozen, and an unknown key is an error that never shows a value."""

    # Deferred: the validators are built with the first settings, not by the import.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True
    )


class ToolOverrides(Model):
    """Settings of a tool that hold in one environment.

    Args:
        enabled: Whether the tool can be called.
        status: Whether it is active, or why it is not; `maintenance` tells the model to come back.
        priority: Who goes first when not everything can run at once: 1 to 5, or its name.
        timeout: How long one attempt may take: seconds, or text such as `500ms`, `2s`, `1m`.
        deadline: How long the whole call may take, its waits and retries included.
        retry_attempts: How often it is tried again after a failure, from 0 to 20.
        retry_delay: How long to wait before the first retry; it doubles from there.
        effect: What a call changes: `read`, `idempotent` or `once`.
        lane: Tools of the same lane never write at the same time.
        concurrency: How many calls of this tool may run at once.
        max_result_bytes: How long its answer may be; a longer one is cut.
        fallback_tools: Tools to try in turn, with the same arguments, when this one stays down.
        custom_parameters: Values for the tool itself; it reads them as `ctx.parameters`.
        behavior: Whether the model waits for the answer: `blocking` or `non_blocking`.
        scheduling: When the model speaks of an answer it did not wait for: `silent`, `when_idle`
            or `interrupt`.
        description: What the model reads about the tool, instead of its own description.
        requires_approval: Whether a person is asked first.
        cache_seconds: How long a result may be reused.
        tags: Words to find it by.
    """

    enabled: Switch = True
    status: Status = None
    priority: Priority = None
    timeout: OptionalDuration = None
    deadline: OptionalDuration = None
    retry_attempts: Retries = None
    retry_delay: OptionalDuration = None
    effect: Effect = None
    lane: Name | None = None
    concurrency: OptionalCount = None
    max_result_bytes: OptionalCount = None
    fallback_tools: Names | None = None
    custom_parameters: Parameters = Field(default={}, repr=False)
    behavior: Behavior = None
    scheduling: Scheduling = None
    description: str | None = None
    requires_approval: OptionalSwitch = None
    cache_seconds: OptionalDuration = None
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
    ] = {}


ToolConfigurations: TypeAlias = Annotated[
    dict[str, Annotated[ToolConfiguration, BeforeValidator(mapping)]], BeforeValidator(mapping)
]


def merge(layers: Iterable[ToolOverrides]) -> ToolConfiguration:
    """Lays settings over one another, later ones on top; custom parameters are merged by key."""
    values: dict[str, Any] = {}
    for layer in layers:
        own = {key: getattr(layer, key) for key in layer.model_fields_set}
        parameters = own.pop("custom_parameters", {})
        values |= own
        values["custom_parameters"] = {**values.get("custom_parameters", {}), **parameters}
    values.pop("environment_specific", None)
    return ToolConfiguration.model_construct(**values)
