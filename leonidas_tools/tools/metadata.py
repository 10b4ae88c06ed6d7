"""The options of a tool, and its metadata: everything but its function."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, dataclass_transform, get_args

from leonidas_tools.errors import SchemaError
from leonidas_tools.results.jsonable import is_utf8, utf8_text

E = TypeVar("E", bound=Enum)
C = TypeVar("C")
In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)

MAX_BACKOFF = 10
RetryableFailure: TypeAlias = Literal["failed", "unavailable", "timeout"]
RETRYABLE_FAILURES: Sequence[str] = get_args(RetryableFailure)

_CATEGORY = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class ToolCategory(StrEnum):
    """The processor that runs the tool; any other word is a category of the user."""

    ACTION = "action"
    SPEECH = "speech"
    PYTHON = "python"
    MCP = "mcp"
    SYSTEM = "system"
    DATA = "data"
    INTEGRATION = "integration"
    QUERY = "query"
    STORAGE = "storage"
    EXTERNAL = "external"
    CUSTOM = "custom"


class ToolPriority(IntEnum):
    """The order of waiting calls when a limit is reached. Critical calls never wait."""

    CRITICAL = 1
    HIGH = 2
    NORMAL = 3
    LOW = 4
    BACKGROUND = 5


class ToolStatus(StrEnum):
    """The availability of a tool."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    DISABLED = "disabled"
    ERROR = "error"
    MAINTENANCE = "maintenance"


class ToolEffect(StrEnum):
    """The effect of a call: it decides retries, sharing, lanes and cancellation."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    ONCE = "once"


class ToolBehavior(StrEnum):
    """The behavior of a function: whether the model waits (`FunctionDeclaration.behavior`)."""

    BLOCKING = "BLOCKING"
    NON_BLOCKING = "NON_BLOCKING"


class ToolScheduling(StrEnum):
    """The time to speak about a response not waited for (`FunctionResponse.scheduling`)."""

    SILENT = "SILENT"
    WHEN_IDLE = "WHEN_IDLE"
    INTERRUPT = "INTERRUPT"


class OnCancel(StrEnum):
    """The treatment of a running call whose result is no longer needed."""

    STOP = "stop"
    FINISH = "finish"
    UNDO = "undo"


class AfterUntrusted(StrEnum):
    """The treatment of a call with an effect in a session that has read untrusted content."""

    ASK = "ask"
    DENY = "deny"
    ALLOW = "allow"


class RunsOn(StrEnum):
    """The place where the code of a tool runs."""

    HERE = "here"
    RAY = "ray"
    TEMPORAL = "temporal"


class Overflow(StrEnum):
    """The part that is kept of a result that is too long."""

    HEAD = "head"
    TAIL = "tail"
    BOTH = "both"
    SPILL = "spill"


def as_enum(kind: type[E], value: E | str | int) -> E:
    """Return the member of an enumeration, given itself, its value or its name in any case.

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
    raise SchemaError(no_such_word(kind, value))


def no_such_word(kind: type[Enum], value: object) -> str:
    """Return a message about a word that an enumeration does not have; it lists the known ones.

    Example:
        >>> no_such_word(ToolEffect, "raed")
        "There is no effect 'raed': did you mean 'read'? Choose from 'read', 'idempotent', 'once'"
    """
    noun = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__.removeprefix("Tool")).lower()
    words = [member.name.lower() for member in kind]
    return f"There is no {noun} {value!r}: {_choice(str(value), words)}"


def _choice(word: str, words: Sequence[str]) -> str:
    from difflib import get_close_matches  # only a mistake needs it

    longer = [each for each in words if each.startswith(f"{word}_")]
    near = longer or get_close_matches(word.lower(), words, n=1)
    hint = f"did you mean {near[0]!r}? Choose" if near else "choose"
    return f"{hint} from {', '.join(map(repr, words))}"


_OFF = re.compile(
    r"\s*(?:off|false|no|(?:0+\.?0*|\.0+)\s*(?:ms|s|m|h)?)\s*", re.IGNORECASE | re.ASCII
)
NO_TIMEOUT_OFF = (
    "cannot be switched off: without a time limit, one call that never ends would leave the user "
    "without an answer; give a long time, such as 600 seconds"
)


def is_off(value: Any) -> bool:
    """Return whether a value switches a limit off: `0`, `off` or false, also as text.

    Example:
        >>> is_off(0), is_off("off"), is_off("0s"), is_off(1), is_off(None)
        (True, True, True, False, False)
    """
    if isinstance(value, str):
        return _OFF.fullmatch(value) is not None
    return isinstance(value, int | float) and value == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduling:
    """The scheduling of responses that the model did not wait for, by kind of response.

    Args:
        ok: The call succeeded.
        error: The call failed.
        late: The call has ended, but the connection it came from is closed.
        progress: The call is not done yet; unless this is set, the model receives no progress.

    Example:
        >>> Scheduling.of("when_idle") == Scheduling.of(
        ...     {"ok": "when_idle", "error": "when_idle", "late": "when_idle"}
        ... )
        True
    """

    ok: ToolScheduling | None = None
    error: ToolScheduling | None = None
    late: ToolScheduling | None = None
    progress: ToolScheduling | None = None

    @classmethod
    def of(
        cls, value: Scheduling | ToolScheduling | str | Mapping[str, ToolScheduling | str | None]
    ) -> Scheduling:
        """Parse a value: one word applies to every final response, a mapping has one for each.

        Raises:
            SchemaError: A word or a kind of response is unknown.
        """
        if isinstance(value, Scheduling):
            return value
        if not isinstance(value, Mapping):
            return cls(**dict.fromkeys(FINAL_ANSWERS, as_enum(ToolScheduling, value)))
        known = [each.name for each in fields(cls)]
        for unknown in value.keys() - known:
            raise SchemaError(f"{unknown!r} is not an answer to schedule; choose from {known!r}")
        words = {key: word for key, word in value.items() if word is not None}
        return cls(**{key: as_enum(ToolScheduling, word) for key, word in words.items()})


FINAL_ANSWERS = ("ok", "error", "late")
"""The kinds of response that one word for `scheduling` applies to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolOrigin:
    """The MCP server that a tool comes from.

    Args:
        server: The name of the server.
        tool: Its name on the server, which may differ from its name here.
        identity: A fingerprint of the server's command or address.
    """

    server: str
    tool: str
    identity: str = field(default="", compare=False, repr=False)


def as_category(value: ToolCategory | str) -> ToolCategory | str:
    """Return a category, given itself or its name in any case; another word is a category too.

    Raises:
        SchemaError: It cannot be the name of a category.

    Example:
        >>> as_category("Data"), as_category("billing")
        (<ToolCategory.DATA: 'data'>, 'billing')
    """
    if isinstance(value, str):
        name = value.lower()
        if name in ToolCategory.__members__.values():
            return ToolCategory(name)
        if _CATEGORY.fullmatch(name):
            return name
    raise SchemaError(
        f"{no_such_word(ToolCategory, value)}, or a word of letters, digits, '_' and '-'"
    )


def guess_category(category: ToolCategory | str) -> ToolCategory | None:
    """Return the known category that an unknown one looks like a misspelling of.

    Example:
        >>> guess_category("pyton"), guess_category("billing")
        (<ToolCategory.PYTHON: 'python'>, None)
    """
    if isinstance(category, ToolCategory):
        return None
    from rapidfuzz.distance import OSA

    nearest = min(ToolCategory, key=lambda known: OSA.distance(category, known.value))
    slips = 1 if len(nearest.value) < 6 else 2  # noqa: PLR2004 - of letters
    return nearest if OSA.distance(category, nearest.value) <= slips else None


def parse_seconds_or_off(option: str, value: Any) -> float | None:
    """Return a time above 0; `None` if the limit is switched off."""
    return _limit_or_off(option, value, "a time in seconds")


def parse_count_or_off(option: str, value: Any) -> float | None:
    """Return a number above 0; `None` if the limit is switched off."""
    return _limit_or_off(option, value, "a number")


def _limit_or_off(option: str, value: Any, kind: str) -> float | None:
    if is_off(value):
        return None
    if _is_number(value) and value > 0:
        return value  # type: ignore[no-any-return]
    raise SchemaError(f"{option} must be {kind} above 0, or 0 or 'off' for no limit, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def parse_seconds(option: str, value: Any) -> float:
    """Return a time above 0; this limit cannot be switched off."""
    if _is_number(value) and 0 < value < math.inf:
        return value  # type: ignore[no-any-return]
    raise SchemaError(f"{option} must be a time in seconds above 0, not {value!r}")


def parse_timeout(option: str, value: Any) -> float:
    """Return the timeout of an attempt, which cannot be switched off."""
    if is_off(value):
        raise SchemaError(f"{option} {NO_TIMEOUT_OFF}")
    if _is_number(value) and value > 0:
        return value  # type: ignore[no-any-return]
    raise SchemaError(f"{option} must be a time in seconds above 0, not {value!r}")


def parse_delay(option: str, value: Any) -> float:
    """Return a delay; 0 if it is switched off."""
    return 0.0 if is_off(value) else parse_seconds(option, value)


def parse_count(option: str, value: Any) -> int:
    """Return a whole number above 0."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise SchemaError(f"{option} must be a whole number above 0, not {value!r}")


def parse_retries(option: str, value: Any) -> int:
    """Return a number of retries; 0 if they are switched off."""
    if is_off(value):
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise SchemaError(f"{option} must be 0 or more, or 'off', not {value!r}")


def parse_backoff(option: str, value: Any) -> float:
    """Return the factor between two delays."""
    if _is_number(value) and 1 <= value <= MAX_BACKOFF:
        return value  # type: ignore[no-any-return]
    raise SchemaError(f"{option} must be a number from 1 to {MAX_BACKOFF}, not {value!r}")


def parse_filler_after(option: str, value: Any) -> float | str | None:
    """Return a time, or the word `median`; `None` if there is no filler."""
    if isinstance(value, str) and value.strip().lower() == "median":
        return "median"
    if is_off(value):
        return None
    if _is_number(value) and 0 < value < math.inf:
        return value  # type: ignore[no-any-return]
    raise SchemaError(f"{option} must be a time in seconds, 'median' or 'off', not {value!r}")


def parse_flag(option: str, value: Any) -> bool:
    """Return a boolean."""
    if isinstance(value, bool):
        return value
    raise SchemaError(f"{option} must be True or False, not {value!r}")


def parse_text(option: str, value: Any) -> str:
    """Return a string."""
    if isinstance(value, str):
        return value
    raise SchemaError(f"{option} must be a string, not {value!r}")


def parse_name(option: str, value: Any) -> str:
    """Return a string, which the settings must not leave empty."""
    return parse_text(option, value)


def parse_names(option: str, value: Any) -> Sequence[str]:
    """Return a sequence of strings, and refuse a single one."""
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise SchemaError(f"{option} must be a list of names, not {value!r}")
    return value  # type: ignore[no-any-return]


def parse_name_tuple(option: str, value: Any) -> Sequence[str]:
    """Return a tuple of strings, and refuse a single one."""
    return tuple(parse_names(option, value))


def parse_failures(option: str, value: Any) -> Sequence[str]:
    """Return the kinds of failure that are retried."""
    if any(each not in RETRYABLE_FAILURES for each in parse_names(option, value)):
        known = ", ".join(map(repr, RETRYABLE_FAILURES))
        raise SchemaError(f"{option} must be a list of {known}, not {value!r}")
    return tuple(value)


def parse_scheduling(_: str, value: Any) -> Scheduling:
    """Return a scheduling, given a word or a mapping."""
    return Scheduling.of(value)


def parse_category(_: str, value: Any) -> ToolCategory | str:
    """Return a category, given a word."""
    return as_category(value)


def parse_resources(option: str, value: Any) -> dict[str, float]:
    """Return the resources that a task needs."""
    if isinstance(value, Mapping) and all(
        isinstance(name, str) and _is_number(amount) and 0 <= amount < math.inf
        for name, amount in value.items()
    ):
        return dict(value)
    raise SchemaError(
        f"{option} must map names to amounts, such as {{'num_cpus': 2}}, not {value!r}"
    )


def unchecked(_: str, value: Any) -> Any:
    """Return any value."""
    return value


class Parsed(Protocol[In_contra, Out_co]):
    """The type of an option that is parsed: `@tool` takes the first type, a tool has the second."""

    def __get__(self, instance: object, owner: type) -> Out_co: ...
    def __set__(self, instance: object, value: In_contra | None) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """The declaration of an option of a tool.

    Args:
        default: The value if nothing sets it.
        read: Parses an argument of `@tool`: an enumeration, or a function of the name and the value
            that raises `SchemaError`. The type in the settings depends on it too.
        doc: The description in the documentation and the JSON Schema.
        name: The name of the option, which is that of its field.
        key: The name in the settings, by default the same; `None` if only code can set the option.
        policy: The setting under `policies` that applies if nothing sets the option.
        shown_with: Another option, without which this one has no effect.
    """

    default: Any
    read: type[Enum] | Callable[[str, Any], Any]
    doc: str
    name: str = ""
    key: str | None = ""
    policy: str | None = None
    shown_with: str | None = None

    @property
    def is_limit(self) -> bool:
        """Return whether `off` removes it: the value is `None`, and `False` in the settings."""
        return self.read in (parse_seconds_or_off, parse_count_or_off, parse_filler_after)

    def parse(self, value: Any) -> Any:
        """Return the value of an argument of `@tool`, or raise `SchemaError`."""
        if isinstance(self.read, type):
            return as_enum(self.read, value)
        return self.read(self.name, value)


def option(*, default: Any, **details: Any) -> Any:
    """Declare an option as a field of `ToolOptions`, with the arguments of `Option`."""
    declared = Option(default=default, **details)
    is_plain = declared.read is not unchecked  # not a function of the tool
    initial = {"default_factory": dict} if default == {} else {"default": default}
    return field(**initial, repr=is_plain, compare=is_plain, metadata={"option": declared})


@dataclass_transform(kw_only_default=True, field_specifiers=(option, field))
def options_class(kind: type[C]) -> type[C]:
    """Make a class a frozen dataclass whose options type checkers know by both their types.

    It is not declared as frozen to them: mypy would read a field by the type that it accepts.
    """
    return dataclass(frozen=True, kw_only=True, slots=True)(kind)


@options_class
class ToolOptions:
    """The options of a tool, each declared here and nowhere else.

    From a field follow the keyword of `@tool`, the setting under `tools`, `defaults` and
    `mcp_servers.NAME.tools`, its JSON Schema and tables, the effective value, and its source. As an
    option of `@tool`, `0` or `"off"` switches a limit off; only the timeout has no off.
    """

    name: Parsed[str, str] = option(
        default="",
        read=parse_text,
        doc="The tool's own name, used by `execute`, the settings and policies.",
        key=None,
    )
    status: Parsed[ToolStatus | str, ToolStatus] = option(
        default=ToolStatus.ACTIVE,
        read=ToolStatus,
        doc="Whether it is active, or why not; `maintenance` tells the model to try again later.",
    )
    category: Parsed[ToolCategory | str, ToolCategory | str] = option(
        default=ToolCategory.PYTHON,
        read=parse_category,
        doc="The category whose processor runs it: a known category, or any other word.",
    )
    effect: Parsed[ToolEffect | str, ToolEffect] = option(
        default=ToolEffect.ONCE,
        read=ToolEffect,
        doc="What a call changes: `read`, `idempotent` or `once`.",
    )
    priority: Parsed[ToolPriority | str | int, ToolPriority] = option(
        default=ToolPriority.NORMAL,
        read=ToolPriority,
        doc="Which calls run first if not all can run at once: 1 to 5, or a name.",
    )
    runs_on: Parsed[RunsOn | str, RunsOn] = option(
        default=RunsOn.HERE,
        read=RunsOn,
        doc="Where it runs: `here`, as a task of a cluster (`ray`), or in a worker (`temporal`), "
        "where a call has its effect once even if machines fail.",
    )
    resources: Parsed[Mapping[str, float], Mapping[str, float]] = option(
        default={},
        read=parse_resources,
        doc="The resources of a machine that such a task needs: `num_cpus`, `num_gpus`, `memory` "
        "in bytes, and other resources of the cluster by name.",
    )
    timeout_seconds: float | None = option(
        default=None,
        read=parse_timeout,
        doc="The timeout of one attempt: seconds, or text such as `500ms`, `2s`, `1m`. It cannot "
        "be switched off.",
        key="timeout",
        policy="default_timeout",
    )
    deadline_seconds: Parsed[float | Literal["off"], float | None] = option(
        default=None,
        read=parse_seconds_or_off,
        doc="The timeout of the whole call, including its waits and retries; `0` or `off` for no "
        "limit.",
        key="deadline",
    )
    retry_attempts: Parsed[int | Literal["off"], int | None] = option(
        default=None,
        read=parse_retries,
        doc="The maximum number of retries after a failure, from 0 to 20; `0` or `off` for none.",
    )
    retry_delay_seconds: Parsed[float | Literal["off"], float] = option(
        default=0.1,
        read=parse_delay,
        doc="The delay before the first retry; `0` or `off` for none.",
        key="retry_delay",
        shown_with="retry_attempts",
    )
    retry_backoff: Parsed[float, float] = option(
        default=2.0,
        read=parse_backoff,
        doc="The factor by which each delay is longer than the one before, from 1 to 10; 2 "
        "unless it is set.",
        shown_with="retry_attempts",
    )
    retry_longest_delay_seconds: Parsed[float, float] = option(
        default=10.0,
        read=parse_seconds,
        doc="The maximum delay; 10 s unless it is set.",
        key="retry_longest_delay",
        shown_with="retry_attempts",
    )
    retry_on: Sequence[str] | None = option(
        default=None,
        read=parse_failures,
        doc="The failures that are retried if a retry can do no harm: `failed`, `unavailable` "
        "and `timeout`.",
        shown_with="retry_attempts",
    )
    on_cancel: Parsed[OnCancel | str, OnCancel | None] = option(
        default=None,
        read=OnCancel,
        doc="What happens to a running call when the model no longer wants its result: `stop`, "
        "`finish` or `undo`. Unless it is set, a call with the effect `once` is finished, or "
        "undone if it can be, and all others are stopped.",
    )
    repeat_after_resume: Parsed[bool, bool] = option(
        default=False,
        read=parse_flag,
        doc="Whether a call that the model repeats after a reconnect runs again.",
    )
    lane: str | None = option(
        default=None,
        read=parse_name,
        doc="Tools of the same lane never write at the same time, for all users together.",
    )
    requires_approval: bool | None = option(
        default=None,
        read=parse_flag,
        doc="Whether a person is asked first.",
    )
    untrusted: Parsed[bool, bool] = option(
        default=False,
        read=parse_flag,
        doc="Whether its results may come from anyone, such as the text of a web page: they mark "
        "the session that reads them.",
    )
    after_untrusted: Parsed[AfterUntrusted | str, AfterUntrusted | None] = option(
        default=None,
        read=AfterUntrusted,
        doc="What happens to its calls in a marked session, if they have an effect and arguments "
        "that did not come from the user: `ask`, `deny` or `allow`. Unless it is set, "
        "`policies.after_untrusted` applies.",
        policy="after_untrusted",
    )
    cache_seconds: Parsed[float | Literal["off"], float | None] = option(
        default=None,
        read=parse_seconds_or_off,
        doc="How long a result is cached, only with the effect `read`; `0` or `off` for never.",
    )
    stale_if_error_seconds: Parsed[float | Literal["off"], float | None] = option(
        default=None,
        read=parse_seconds_or_off,
        doc="How long after `cache_seconds` a result may replace a failure; `0` or `off` for "
        "never.",
        key="stale_if_error",
        shown_with="cache_seconds",
    )
    concurrency: Parsed[int | Literal["off"], int | None] = option(
        default=None,
        read=parse_count_or_off,
        doc="The maximum number of its calls that run at once; `0` or `off` for no limit.",
    )
    calls_per_turn: Parsed[int | Literal["off"], int | None] = option(
        default=None,
        read=parse_count_or_off,
        doc="The maximum number of its calls in a session each time the user speaks; `0` or "
        "`off` for no limit.",
    )
    calls_per_minute: Parsed[int | Literal["off"], int | None] = option(
        default=None,
        read=parse_count_or_off,
        doc="The maximum number in any sixty seconds; `0` or `off` for no limit.",
    )
    calls_per_session: Parsed[int | Literal["off"], int | None] = option(
        default=None,
        read=parse_count_or_off,
        doc="The maximum number in the session; `0` or `off` for no limit.",
    )
    breaker: bool | None = option(
        default=None,
        read=parse_flag,
        doc="Whether it has a circuit breaker; if omitted, `policies.breaker` decides.",
        policy="breaker",
    )
    polling: Parsed[bool, bool] = option(
        default=False,
        read=parse_flag,
        doc="Whether repeated calls are its purpose: none of them counts as a loop, and equal "
        "calls of one turn run more than once even if the effect is `once`.",
    )
    max_result_bytes: Parsed[int, int] = option(
        default=0,
        read=parse_count,
        doc="The maximum bytes of its result; a longer one is truncated.",
        policy="max_result_bytes",
    )
    max_result_tokens: Parsed[int | Literal["off"], int | None] = option(
        default=None,
        read=parse_count_or_off,
        doc="The maximum length of its result, in estimated tokens; `0` or `off` for no limit.",
    )
    overflow: Parsed[Overflow | str, Overflow] = option(
        default=Overflow.HEAD,
        read=Overflow,
        doc="Which part of a longer result is kept: its `head`, its `tail`, `both`, or all of "
        "it, of which the model sees a part and can request more (`spill`).",
    )
    collect: Parsed[bool, bool] = option(
        default=False,
        read=parse_flag,
        doc="Whether the result of a generator is the list of all yielded values, and not its "
        "last value.",
    )
    behavior: Parsed[ToolBehavior | str, ToolBehavior | None] = option(
        default=None,
        read=ToolBehavior,
        doc="Whether the model waits for the result: `blocking` or `non_blocking`.",
    )
    scheduling: Parsed[
        Scheduling | ToolScheduling | str | Mapping[str, ToolScheduling | str | None],
        Scheduling | None,
    ] = option(
        default=None,
        read=parse_scheduling,
        doc="When the model speaks of a result that it did not wait for: `silent`, `when_idle` "
        "or `interrupt`; one word for every final result, or one for each of `ok`, `error`, "
        "`late` and `progress`.",
    )
    filler_after_seconds: Parsed[
        float | Literal["median", "off"], float | Literal["median"] | None
    ] = option(
        default=None,
        read=parse_filler_after,
        doc="How long the silence may last, while the tool runs, before it is filled: seconds, "
        "text such as `2s`, or `median` for the usual time of the tool; `0` or `off` for never.",
        key="filler_after",
    )
    filler: str | None = option(
        default=None,
        read=parse_name,
        doc="The sentence that the model says then.",
        shown_with="filler_after_seconds",
    )
    fallback_tools: Parsed[Sequence[str], Sequence[str]] = option(
        default=(),
        read=parse_names,
        doc="Tools to try in order, with the same arguments, if this one keeps failing.",
    )
    tags: Parsed[Sequence[str], Sequence[str]] = option(
        default=(),
        read=parse_names,
        doc="Words to find it by.",
    )
    description: Parsed[str, str] = option(
        default="",
        read=parse_text,
        doc="The description for the model, instead of the tool's own.",
    )
    dependencies: Parsed[Sequence[str], Sequence[str]] = option(
        default=(),
        read=parse_names,
        doc="Its requirements: names of tools, `module:NAME` or `command:NAME`.",
        key=None,
    )
    secrets: Parsed[Sequence[str], Sequence[str]] = option(
        default=(),
        read=parse_name_tuple,
        doc="Names of secret values in its arguments and its result, at any depth: they are "
        "neither stored nor shown, and those of a result are not sent to the model either.",
        key=None,
    )
    cpu_bound: Parsed[bool, bool] = option(
        default=False,
        read=parse_flag,
        doc="Whether it runs in a process of its own.",
        key=None,
    )
    version: str | None = option(
        default=None,
        read=parse_text,
        doc="The tool's own version, if it has one.",
        key=None,
    )
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = option(
        default=None,
        read=unchecked,
        doc="Derives from the arguments of a call further values for rules, such as the commands "
        "in a script. If `risks` among them is a list that is not empty, the call needs "
        "approval, unless `requires_approval` or a rule decides otherwise; so it is with "
        "`program_files`, in every mode, unless a rule decides otherwise.",
        key=None,
    )
    undo: Callable[..., Any] | None = option(
        default=None,
        read=unchecked,
        doc="Called with the same arguments when a call was cancelled midway.",
        key=None,
    )


def _name_option(name: str, declared: Option) -> Option:
    return replace(declared, name=name, key=name if declared.key == "" else declared.key)


OPTIONS: Mapping[str, Option] = {
    each.name: _name_option(each.name, each.metadata["option"]) for each in fields(ToolOptions)
}
"""The options of a tool by name, in the order in which they are shown."""


@options_class
class ToolMetadata(ToolOptions):
    """The metadata of a tool: its options, and what only this package sets.

    Args:
        parameters: A JSON Schema of type `object`.
        origin: The MCP server it comes from; settings and rules can use its name there.
        fixed: Arguments that override those of every call; rules and approval requests include
            them.
        quarantine: Why its calls are denied although it is declared; `None` if they are not.
        destructive: Whether its MCP server declares it destructive.
        answers_questions: Whether it is a tool of the library with which the model reports a
            person's answer: it only waits for another call, which has its own limits.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    origin: ToolOrigin | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict, repr=False)
    quarantine: str | None = None
    destructive: bool = False
    answers_questions: bool = False

    def __post_init__(self) -> None:
        if not is_utf8(self.name):
            raise SchemaError(f"The name {self.name!r} is not valid UTF-8: choose another")
        if not is_utf8(self.description):
            object.__setattr__(self, "description", utf8_text(self.description))


_INTERNAL = frozenset(
    {each.name for each in fields(ToolMetadata)} - OPTIONS.keys() - {"parameters"}
)
"""Options that only this package sets; no message suggests them."""


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with their words resolved, and raise for an unknown option."""
    for unknown in options.keys() - OPTIONS.keys() - _INTERNAL:
        known = sorted(OPTIONS)
        raise SchemaError(f"{unknown!r} is not an option of a tool: {_choice(unknown, known)}")
    return {
        key: OPTIONS[key].parse(value) if key in OPTIONS and value is not None else value
        for key, value in options.items()
    }


def fingerprint_of(metadata: ToolMetadata) -> str:
    """Return a hash of a tool's definition, as a model and a person see it.

    Another server, schema, description or effect gives another hash, also under the same name.
    """
    origin = metadata.origin
    whose = None if origin is None else [origin.server, origin.tool, origin.identity]
    definition = [metadata.name, metadata.description, metadata.parameters, metadata.effect, whose]
    if metadata.fixed:
        definition.append(metadata.fixed)
    return hashlib.sha256(_canonical(definition).encode(errors="replace")).hexdigest()


def hash_of(tool: str, fingerprint: str, arguments: Mapping[str, Any]) -> str:
    """Return a hash of a call: the tool's name, its definition's fingerprint, and the arguments."""
    return hashlib.sha256(_canonical([tool, fingerprint, arguments]).encode()).hexdigest()


# Created once: `json.dumps` creates an encoder for each call.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode
