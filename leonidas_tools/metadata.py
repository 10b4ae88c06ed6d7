"""All that is known of a tool but its function."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from leonidas_tools.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

E = TypeVar("E", bound=Enum)


class ToolCategory(StrEnum):
    """Who runs the tool."""

    ACTION = "action"
    SPEECH = "speech"
    PYTHON = "python"
    MCP = "mcp"
    SYSTEM = "system"
    DATA = "data"
    INTEGRATION = "integration"


class ToolPriority(IntEnum):
    """Who goes first when not everything can run at once. Critical calls never wait."""

    CRITICAL = 1
    HIGH = 2
    NORMAL = 3
    LOW = 4
    BACKGROUND = 5


class ToolStatus(StrEnum):
    """Whether a tool can be called."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    DISABLED = "disabled"
    ERROR = "error"
    MAINTENANCE = "maintenance"


class ToolEffect(StrEnum):
    """What a call changes; it decides on retries, sharing, lanes and cancellation."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    ONCE = "once"


class ToolBehavior(StrEnum):
    """Whether the model waits for the answer (Gemini's `FunctionDeclaration.behavior`)."""

    BLOCKING = "BLOCKING"
    NON_BLOCKING = "NON_BLOCKING"


class ToolScheduling(StrEnum):
    """When the model speaks of an answer it did not wait for (`FunctionResponse.scheduling`)."""

    SILENT = "SILENT"
    WHEN_IDLE = "WHEN_IDLE"
    INTERRUPT = "INTERRUPT"


def as_enum(kind: type[E], value: E | str | int) -> E:
    """The member of an enumeration, given itself, its value or its name in any case.

    Raises:
        SchemaError: There is no such member.

    Example:
        >>> as_enum(ToolPriority, "High"), as_enum(ToolPriority, 2)
        (<ToolPriority.HIGH: 2>, <ToolPriority.HIGH: 2>)
    """
    if isinstance(value, kind):
        return value
    for member in kind:
        if value == member.value or str(value).upper() in (member.name, str(member.value).upper()):
            return member
    options = ", ".join(repr(member.name.lower()) for member in kind)
    raise SchemaError(f"{value!r} is not a {kind.__name__}; choose one of {options}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolMetadata:
    """All that is known of a tool but its function.

    Args:
        name: The tool's own name, used by `execute`, the settings and policies.
        description: What it does, for the model.
        parameters: A JSON Schema of type `object`.
        category: Which category processor runs it.
        priority: Who goes first when not everything can run at once.
        effect: What a call changes.
        timeout_seconds: How long one attempt may take; `None` leaves it to the settings.
        deadline_seconds: How long the whole call may take, waits and retries included.
        retry_attempts: How often it is tried again; `None` leaves it to the effect.
        fallback_tools: Tools to try in turn, with the same arguments, when it stays down.
        dependencies: What it needs: names of tools, `module:NAME` or `command:NAME`.
        tags: Words to find it by.
        lane: Which lane it shares; by default that of its module or object.
        cache_seconds: How long a result may be reused; for a policy to act on.
        requires_approval: Whether a person is to be asked first; for a policy to act on.
        behavior: Whether the model waits for it.
        scheduling: When the model speaks of its answer, where it did not wait.
        cpu_bound: Whether it runs in a process of its own.
        status: Whether it can be called.
        version: The tool's own version, where it has one.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    category: ToolCategory = ToolCategory.PYTHON
    priority: ToolPriority = ToolPriority.NORMAL
    effect: ToolEffect = ToolEffect.ONCE
    timeout_seconds: float | None = None
    deadline_seconds: float | None = None
    retry_attempts: int | None = None
    fallback_tools: Sequence[str] = ()
    dependencies: Sequence[str] = ()
    tags: Sequence[str] = ()
    lane: str | None = None
    cache_seconds: float | None = None
    requires_approval: bool = False
    behavior: ToolBehavior | None = None
    scheduling: ToolScheduling | None = None
    cpu_bound: bool = False
    status: ToolStatus = ToolStatus.ACTIVE
    version: str | None = None


_ENUMS: Mapping[str, type[Enum]] = {
    "category": ToolCategory,
    "priority": ToolPriority,
    "effect": ToolEffect,
    "behavior": ToolBehavior,
    "scheduling": ToolScheduling,
    "status": ToolStatus,
}
_OPTIONS = frozenset(f.name for f in fields(ToolMetadata)) - {"parameters"} | {"undo"}


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with their enumerations resolved; an unknown one is an error."""
    for unknown in options.keys() - _OPTIONS:
        raise SchemaError(
            f"{unknown!r} is not an option of a tool; choose from {sorted(_OPTIONS)!r}"
        )
    return {
        key: as_enum(_ENUMS[key], value) if key in _ENUMS and value is not None else value
        for key, value in options.items()
    }
