"""Metadata of a tool: everything but its function."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum, StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from leonidas_tools.errors import SchemaError
from leonidas_tools.results.jsonable import is_utf8, utf8_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

E = TypeVar("E", bound=Enum)

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
    what = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__.removeprefix("Tool")).lower()
    words = [member.name.lower() for member in kind]
    return f"There is no {what} {value!r}: {_choice(str(value), words)}"


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolMetadata:
    """The metadata of a tool: everything but its function.

    As an option of `@tool`, `0` or `"off"` switches a limit off; only the timeout has no off.

    Args:
        name: The tool's own name, used by `execute`, the settings and policies.
        description: The description for the model.
        parameters: A JSON Schema of type `object`.
        category: The category, whose processor runs it.
        priority: The order of waiting calls when a limit is reached.
        effect: What a call changes.
        timeout_seconds: The timeout of one attempt; `None` for that of the settings.
        deadline_seconds: The timeout of the whole call, waits and retries included.
        retry_attempts: The number of retries; `None` for the default of the effect.
        fallback_tools: Tools to try in turn, with the same arguments, when it keeps failing.
        dependencies: Its requirements: names of tools, `module:NAME` or `command:NAME`.
        tags: Words by which it can be found.
        lane: The lane that it shares over all users; by default that of its module or object for
            each user. With `off`, its calls use no lane.
        cache_seconds: How long a result may be reused; only if the effect is `read`.
        stale_if_error_seconds: How much longer a cached result may replace a failure.
        polling: Whether the model is expected to repeat its calls: they never count as a loop, and
            equal calls of one turn run more than once even if the effect is `once`.
        max_result_tokens: The maximum length of its result, in tokens, which are estimated.
        overflow: The part of a longer result that is kept: the `head`, the `tail`, `both`, or all
            of it, so that the model can read more (`spill`).
        requires_approval: Whether a call needs the approval of a person; a policy enforces it. If
            omitted, a tool with an effect asks whose name or server says that it deletes, sends,
            pays or moves many things (`policies.risky`).
        destructive: Whether its MCP server declares it destructive.
        behavior: Whether the model waits for it.
        scheduling: When the model speaks about its responses, if it did not wait; one word for all
            final ones, or a mapping of `ok`, `error`, `late` and `progress`.
        on_cancel: What happens to a running call whose result is no longer needed: `stop`, `finish`
            or `undo`; `None` for the default of the effect.
        filler_after_seconds: How long the silence of a call may last before it is filled, or
            `median` for the usual duration of its calls; `None` never fills it.
        filler: A sentence for the model to say then.
        repeat_after_resume: Whether a call that the model repeats after a reconnect, with another
            id, runs again.
        secrets: Names of secret values in its arguments and its result, at any depth: they are
            neither stored nor shown, and those of a result are not sent to the model either.
        untrusted: Whether its results may come from anyone, such as the text of a web page: they
            mark the session that reads them.
        after_untrusted: What happens to its calls in a marked session: `ask`, `deny` or `allow`;
            `None` for the value of the settings.
        cpu_bound: Whether it runs in a process of its own.
        runs_on: Where it runs: `here`, as a task of a cluster (`ray`), or in a worker (`temporal`),
            where a call has one effect even if machines fail.
        resources: The resources of such a task: `num_cpus`, `num_gpus`, `memory` in bytes, and
            custom resources of the cluster.
        collect: Whether the result of a generator is the list of all its values, instead of the
            last one.
        status: Whether it can be called.
        version: The tool's own version, if it has one.
        origin: The MCP server it comes from; settings and rules can use its name there.
        fixed: Arguments that override those of every call; rules and approval requests include
            them.
        quarantine: Why its calls are denied although it is declared; `None` if they are not.
        facts: Derives from the arguments of a call further values for rules, such as the commands
            in a script. If `risks` among them is a list that is not empty, the call needs approval,
            unless `requires_approval` or a rule decides otherwise; so it is with `program_files`,
            in every mode, unless a rule decides otherwise.
        answers_questions: Whether it is a tool of the library with which the model reports a
            person's answer: it only waits for another call, which has its own limits.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    category: ToolCategory | str = ToolCategory.PYTHON
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
    stale_if_error_seconds: float | None = None
    polling: bool = False
    max_result_tokens: int | None = None
    overflow: Overflow = Overflow.HEAD
    requires_approval: bool | None = None
    behavior: ToolBehavior | None = None
    scheduling: Scheduling | None = None
    on_cancel: OnCancel | None = None
    filler_after_seconds: float | Literal["median"] | None = None
    filler: str | None = None
    repeat_after_resume: bool = False
    secrets: Sequence[str] = ()
    untrusted: bool = False
    after_untrusted: AfterUntrusted | None = None
    cpu_bound: bool = False
    resources: Mapping[str, float] = field(default_factory=dict)
    collect: bool = False
    runs_on: RunsOn = RunsOn.HERE
    status: ToolStatus = ToolStatus.ACTIVE
    version: str | None = None
    origin: ToolOrigin | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict, repr=False)
    quarantine: str | None = None
    destructive: bool = False
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = field(default=None, repr=False)
    answers_questions: bool = False

    def __post_init__(self) -> None:
        if not is_utf8(self.name):
            raise SchemaError(f"The name {self.name!r} is not valid UTF-8: choose another")
        if not is_utf8(self.description):
            object.__setattr__(self, "description", utf8_text(self.description))


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


def _filler_after(value: float | str) -> float | str | None:
    if isinstance(value, str) and value.strip().lower() == "median":
        return "median"
    if is_off(value):
        return None
    if not isinstance(value, str | bool) and 0 < value < float("inf"):
        return value
    raise SchemaError(
        f"filler_after_seconds must be a time in seconds, 'median' or 'off', not {value!r}"
    )


def _limit_or_off(option: str, what: str, value: Any) -> float | None:
    """Return a limit above 0, or `None` if it is switched off."""
    if is_off(value):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return value
    raise SchemaError(f"{option} must be {what} above 0, or 0 or 'off' for no limit, not {value!r}")


def _timeout(value: Any) -> Any:
    if is_off(value):
        raise SchemaError(f"timeout_seconds {NO_TIMEOUT_OFF}")
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise SchemaError(f"timeout_seconds must be a time in seconds above 0, not {value!r}")
    return value


def _retry_attempts(value: Any) -> int:
    if is_off(value):
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise SchemaError(f"retry_attempts must be 0 or more, or 'off', not {value!r}")


def _flag(option: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise SchemaError(f"{option} must be True or False, not {value!r}")


def _text(option: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise SchemaError(f"{option} must be a string, not {value!r}")


def _names(option: str, value: Sequence[str]) -> Sequence[str]:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise SchemaError(f"{option} must be a list of names, not {value!r}")
    return value


def _secrets(value: Sequence[str]) -> tuple[str, ...]:
    return tuple(_names("secrets", value))


def check_resources(value: Any) -> dict[str, float]:
    """Return the resources that a task needs.

    Raises:
        SchemaError: The value is not a mapping of names to amounts.
    """
    if isinstance(value, Mapping) and all(
        isinstance(name, str)
        and isinstance(amount, int | float)
        and not isinstance(amount, bool)
        and 0 <= amount < math.inf
        for name, amount in value.items()
    ):
        return dict(value)
    raise SchemaError(
        f"resources must map names to amounts, such as {{'num_cpus': 2}}, not {value!r}"
    )


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "category": as_category,
    "priority": partial(as_enum, ToolPriority),
    "effect": partial(as_enum, ToolEffect),
    "behavior": partial(as_enum, ToolBehavior),
    "scheduling": Scheduling.of,
    "on_cancel": partial(as_enum, OnCancel),
    "after_untrusted": partial(as_enum, AfterUntrusted),
    "overflow": partial(as_enum, Overflow),
    "runs_on": partial(as_enum, RunsOn),
    "resources": check_resources,
    "timeout_seconds": _timeout,
    "deadline_seconds": partial(_limit_or_off, "deadline_seconds", "a time in seconds"),
    "retry_attempts": _retry_attempts,
    "cache_seconds": partial(_limit_or_off, "cache_seconds", "a time in seconds"),
    "stale_if_error_seconds": partial(_limit_or_off, "stale_if_error_seconds", "a time in seconds"),
    "max_result_tokens": partial(_limit_or_off, "max_result_tokens", "a number"),
    "filler_after_seconds": _filler_after,
    "secrets": _secrets,
    "tags": partial(_names, "tags"),
    "fallback_tools": partial(_names, "fallback_tools"),
    "dependencies": partial(_names, "dependencies"),
    "status": partial(as_enum, ToolStatus),
    **{
        option: partial(_flag, option)
        for option in (
            "collect",
            "cpu_bound",
            "polling",
            "repeat_after_resume",
            "requires_approval",
            "untrusted",
        )
    },
    **{option: partial(_text, option) for option in ("description", "filler", "name", "version")},
}
_OPTIONS = frozenset(f.name for f in fields(ToolMetadata)) - {"parameters"} | {"undo"}
_INTERNAL = frozenset({"answers_questions", "destructive", "fixed", "origin", "quarantine"})
"""Options that only this package sets; no message suggests them."""


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with their words resolved, and raise for an unknown option."""
    for unknown in options.keys() - _OPTIONS:
        known = sorted(_OPTIONS - _INTERNAL)
        raise SchemaError(f"{unknown!r} is not an option of a tool: {_choice(unknown, known)}")
    return {
        key: _READERS[key](value) if key in _READERS and value is not None else value
        for key, value in options.items()
    }


def fingerprint_of(metadata: ToolMetadata) -> str:
    """Return a hash of a tool's definition, as a model and a person see it.

    Another server, schema, description or effect gives another hash, also under the same name.
    """
    origin = metadata.origin
    whose = None if origin is None else [origin.server, origin.tool, origin.identity]
    said = [metadata.name, metadata.description, metadata.parameters, metadata.effect, whose]
    if metadata.fixed:
        said.append(metadata.fixed)
    return hashlib.sha256(_canonical(said).encode(errors="replace")).hexdigest()


def hash_of(tool: str, fingerprint: str, arguments: Mapping[str, Any]) -> str:
    """Return a hash of a call: the tool's name, its definition's fingerprint, and the arguments."""
    return hashlib.sha256(_canonical([tool, fingerprint, arguments]).encode()).hexdigest()


# Made once: `json.dumps` makes an encoder for each call.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode
