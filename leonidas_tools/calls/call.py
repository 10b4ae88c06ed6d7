"""Calls and their results."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from leonidas_tools.calls.records import record
from leonidas_tools.errors import SessionValueError, ToolValidationError
from leonidas_tools.redaction import PLAIN_REDACTION, KnownSecrets
from leonidas_tools.results.jsonable import utf8_text
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from leonidas_tools.errors import ToolError
    from leonidas_tools.redaction import Redaction
    from leonidas_tools.results.texts import Wording
    from leonidas_tools.settings.models import ToolConfiguration
    from leonidas_tools.tools.tool import Tool

T = TypeVar("T")

REPEATED = "repeated_call"
"""The reason code of the result of a repeated call whose outcome is not known yet."""
DUPLICATE_CALL = "duplicate_call"
"""Reason code of the result of an equal call that the model made in the same turn."""
CANCELLED_CALL = "cancelled_call"
"""The reason code of a result reused from an equal call that a barge-in cancelled."""

_MAX_NAME_LENGTH = 256
_NO_ARGUMENTS: Mapping[str, Any] = {}


class ResultStatus(StrEnum):
    """The status of a result, as the model reads it."""

    OK = "ok"
    """The tool succeeded."""
    NO_RESULTS = "no_results"
    """The tool ran and found no results; a retry does not help."""
    INVALID_ARGUMENT = "invalid_argument"
    """The arguments are invalid; the tool did not run."""
    NOT_FOUND = "not_found"
    """The tool, or the requested object, does not exist."""
    DISABLED = "disabled"
    """The tool is switched off, or in maintenance."""
    DENIED = "denied"
    """A rule or a person has refused the call."""
    PENDING_APPROVAL = "pending_approval"
    """The call waits for a person; its outcome follows."""
    TIMEOUT = "timeout"
    """The call ran out of time."""
    UNKNOWN_OUTCOME = "unknown_outcome"
    """The call ended when its effect may have happened, and nobody knows whether it did."""
    UNAVAILABLE = "unavailable"
    """A service that the tool needs is temporarily unavailable."""
    FAILED = "failed"
    """The tool raised an error."""
    CANCELLED = "cancelled"
    """The call was cancelled."""
    LOOP = "loop"
    """The same calls have given the same results too often; it was not run."""
    LIMITED = "limited"
    """A limit on calls is reached; it was not run."""


_STATUSES: Mapping[str, ResultStatus] = {status.value: status for status in ResultStatus}
_WORDS: Mapping[ResultStatus, str] = {status: status.value for status in ResultStatus}
_OK, _NO_RESULTS = ResultStatus.OK, ResultStatus.NO_RESULTS  # looking them up is slow in 3.11


def validate_status(status: str, *more: str) -> str:
    """Check and return a status name.

    `more` contains further names that count as known here.

    Raises:
        ToolValidationError: The status is unknown; the error lists the known ones.

    Example:
        >>> validate_status("timeout"), validate_status("started", "started")
        ('timeout', 'started')
    """
    options = [*_STATUSES, *more]
    if status not in options:
        raise ToolValidationError(
            f"There is no status {status!r}; choose one of {', '.join(options)}.",
            reason_code="unknown_status",
            valid_options=options,
        )
    return str(status)


@dataclass(frozen=True, kw_only=True, slots=True)
class Media:
    """An image or audio that belongs to a result.

    Args:
        mime_type: The MIME type, such as `image/png` or `audio/wav`.
        data: The bytes.
    """

    mime_type: str
    data: bytes = field(repr=False)


@record
class ToolResult:
    """The result of a call: a status, data, and texts for the model.

    Args:
        status: One of `ResultStatus`.
        result: The return value of the function, as plain JSON once the call has ended.
        message: One sentence for the model.
        retryable: Whether a retry can help.
        retry_hint: The change to make before a retry.
        reason_code: A short, machine-readable reason.
        valid_options: The values that would have been accepted.
        media: Images and audio, sent alongside the JSON.
        speech: One or two sentences to speak, if the result is long.
        cached: Whether it is the result of another call; the message mentions it only if it is old.
        error: The exception behind a failure, for the log; the model never reads it.

    Example:
        >>> ToolResult(result={"celsius": 21}).to_response()
        {'status': 'ok', 'result': {'celsius': 21}, 'retryable': False}
        >>> ToolResult.no_results("No flights on that day.").to_response()
        {'status': 'no_results', 'message': 'No flights on that day.', 'retryable': False}
    """

    status: ResultStatus = ResultStatus.OK
    result: Any = None
    message: str | None = None
    retryable: bool = False
    retry_hint: str | None = None
    reason_code: str | None = None
    valid_options: Sequence[Any] | None = None
    media: Sequence[Media] = ()
    speech: str | None = None
    cached: bool = False
    error: BaseException | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Return whether the status is `ok` or `no_results`."""
        return self.status is _OK or self.status is _NO_RESULTS

    def _repr_html_(self) -> str:
        from leonidas_tools.results.html import html_media, html_table  # only notebooks show it

        return html_table([self.to_response()]) + html_media(self.media)

    @classmethod
    def no_results(cls, message: str, **more: Any) -> ToolResult:
        """Return a result of a tool that ran but found no results, so that no retry follows."""
        return cls(status=ResultStatus.NO_RESULTS, message=message, **more)

    @classmethod
    def not_found(cls, message: str, **more: Any) -> ToolResult:
        """Return a result for something that does not exist."""
        return cls(status=ResultStatus.NOT_FOUND, message=message, **more)

    @classmethod
    def failed(cls, message: str, **more: Any) -> ToolResult:
        """Return a result of a tool that failed."""
        return cls(status=ResultStatus.FAILED, message=message, **more)

    @classmethod
    def from_error(cls, error: ToolError) -> ToolResult:
        """Convert an error whose message is for the model into a result."""
        return cls(
            status=_STATUSES.get(error.status, ResultStatus.FAILED),
            message=None if type(error.message) is str and not error.message else error.message,
            retryable=error.retryable,
            retry_hint=error.retry_hint,
            reason_code=error.reason_code,
            valid_options=error.valid_options,
            error=error,
        )

    def with_value(
        self, value: Any, message: str | None, *, cached: bool | None = None
    ) -> ToolResult:
        """Return a copy with another value and message, and optionally another `cached`."""
        # Like `dataclasses.replace`, which takes five times as long.
        return ToolResult(
            status=self.status,
            result=value,
            message=message,
            retryable=self.retryable,
            retry_hint=self.retry_hint,
            reason_code=self.reason_code,
            valid_options=self.valid_options,
            media=self.media,
            speech=self.speech,
            cached=self.cached if cached is None else cached,
            error=self.error,
        )

    def reworded(self, wording: Wording) -> ToolResult:
        """Return this result with the texts of the settings; texts of tools do not change."""
        message, hint = wording.reword(self.message), wording.reword(self.retry_hint)
        speech = wording.reword(self.speech)
        if message is self.message and hint is self.retry_hint and speech is self.speech:
            return self
        return replace(self, message=message, retry_hint=hint, speech=speech)

    def to_response(self) -> dict[str, Any]:
        """Return the function response that the model reads, without fields that are `None`."""
        response: dict[str, Any] = {"status": _WORDS[self.status]}
        if self.result is not None:
            response["result"] = self.result
        if self.message is not None:
            response["message"] = utf8_text(self.message)
        if self.speech is not None:
            response["speech"] = utf8_text(self.speech)
        response["retryable"] = self.retryable
        if self.retry_hint is not None:
            response["retry_hint"] = utf8_text(self.retry_hint)
        if self.reason_code is not None:
            response["reason_code"] = self.reason_code
        if self.valid_options is not None:
            response["valid_options"] = [
                utf8_text(option) if type(option) is str else option
                for option in self.valid_options
            ]
        return response


class ToolSession:
    """One conversation, and the objects that its calls share.

    Args:
        id: The name of the session in logs and events; random by default.
        user: The user of the session, if known.

    Example:
        >>> session = ToolSession("kitchen")
        >>> session.get(dict)["lights"] = "on"
        >>> session.get(dict)
        {'lights': 'on'}
    """

    __slots__ = ("__weakref__", "_values", "id", "numbers", "user")

    def __init__(
        self,
        id: str | None = None,  # noqa: A002 - the field's own word
        *,
        user: str | None = None,
    ) -> None:
        self.user = user
        self.id = id or uuid.uuid4().hex[:12]
        self.numbers: Iterator[int] = itertools.count(1)
        self._values: dict[type, Any] = {}

    def get(self, kind: type[T]) -> T:
        """Return the session's object of this class, created by `kind()` on first use.

        Raises:
            SessionValueError: No such object exists, and `kind` cannot be called without arguments.
        """
        value: T | None = self._values.get(kind)
        if value is None:
            value = self._values[kind] = self._create(kind)
        return value

    def _create(self, kind: type[T]) -> T:
        try:
            return kind()
        except TypeError:
            missing = _why_uncreatable(kind)
            if missing is None:
                raise  # it takes no arguments: the error is its own
        raise SessionValueError(self._advice(kind, missing))

    def _advice(self, kind: type, missing: str) -> str:
        name = kind.__name__
        text = f"the session {self.id!r} has no {name!r}, and {missing}: "
        similar = [type(each) for each in self._values.values() if kind in type(each).__mro__]
        if similar:
            kin = similar[0].__name__
            return f"{text}its {kin!r} is a subclass: call session.put(value, {name})"
        value = f"value, {name}" if _is_abstract(kind) else f"{name}(...)"
        return text + f"call session.put({value}) before the first call that needs it"

    def find(self, kind: type[T]) -> T | None:
        """Return the session's object of this class, if any."""
        return self._values.get(kind)

    def put(self, value: Any, kind: type | None = None) -> None:
        """Set the session's object of this class, by default of the value's own class."""
        self._values[kind or type(value)] = value

    def __repr__(self) -> str:
        return f"ToolSession({self.id!r})"


def _is_abstract(kind: type) -> bool:
    return inspect.isabstract(kind) or getattr(kind, "_is_protocol", False) is True


def _why_uncreatable(kind: type) -> str | None:
    """Return why a class cannot be called without arguments; `None` if it can."""
    if _is_abstract(kind):
        return f"{kind.__name__!r} is abstract"
    try:
        parameters = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):
        return None  # a class without a signature that can be read
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in optional]
    return f"{kind.__name__!r} needs {', '.join(map(repr, needed))}" if needed else None


@record
class ToolCall:
    """One request to run a tool.

    Args:
        name: The tool's own name.
        arguments: The arguments by name, as the model sent them; validated before the tool runs.
        id: The id, of bounded length; `None` if the server sent none.
        called_as: The name in the call, which may differ from the tool's own.
        session: The session of the call.
        tool: The tool, once the registry has found it.
        settings: The settings that the call keeps; `None` for the defaults.
        number: The number of the call in its session.
        inherited: Secrets of the calls that made this one, which its arguments may contain.
        autonomous: Whether the call runs as in a session of that mode. Only a program can set it:
            it is never read from a part, a file or JSON.
        stands_in: Whether the tool runs in place of an unknown tool, `called_as`.
        by_program: Whether a program made the call without a session; the loop guard ignores it.
        retried: Whether a person retries the call, although it may have taken effect, or it
            continues a call that waited for a person.
        given_id: The id for the function response, if it is longer than `id`.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: _NO_ARGUMENTS, repr=False)
    id: str | None = None
    called_as: str | None = None
    session: ToolSession = field(default_factory=ToolSession)
    tool: Tool[..., Any] | None = None
    settings: ToolConfiguration | None = None
    number: int = 0
    inherited: tuple[KnownSecrets, ...] = field(default=(), repr=False)
    autonomous: bool = False
    stands_in: bool = False
    by_program: bool = False
    retried: bool = False
    given_id: str | None = field(default=None, repr=False)

    @property
    def trace_id(self) -> str:
        """Return the name of the call in events, logs and traces, even if it has no id."""
        return f"{self.session.id}-{self.number}"

    @property
    def tags(self) -> frozenset[str]:
        """Return the tags of its tool: those of the settings, or else of the tool itself."""
        if self.settings is not None and self.settings.tags is not None:
            return frozenset(self.settings.tags)
        return frozenset() if self.tool is None else frozenset(self.tool.metadata.tags)

    @property
    def redaction(self) -> Redaction:
        """Return the redaction of the secrets of its tool and of the settings."""
        redaction = PLAIN_REDACTION if self.tool is None else self.tool.redaction
        return redaction.knowing(*self.known)

    @property
    def known(self) -> tuple[KnownSecrets, ...]:
        """Return the secrets of the call's settings, and of the calls that made it."""
        if self.settings is None or not self.settings.secrets:
            return self.inherited
        return (self.settings.known_secrets, *self.inherited)

    def as_run(self, arguments: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return the arguments that the tool runs with, including the fixed ones.

        Args:
            arguments: Arguments to use instead of those of the call.
        """
        given = self.arguments if arguments is None else arguments
        fixed = None if self.tool is None else self.tool.metadata.fixed
        return {**given, **fixed} if fixed else given

    def secretive_arguments(self) -> KnownSecrets | None:
        """Return the arguments that the tool declares as secret, if any."""
        if self.tool is None or not self.tool.redaction.declares:
            return None
        return KnownSecrets(self.tool.redaction.declared_in(self.arguments))

    def with_secrets_of(self, outer: ToolCall) -> ToolCall:
        """Return this call with the secrets of the call that made it."""
        arguments = outer.secretive_arguments()
        known = outer.known if arguments is None else (arguments, *outer.known)
        more = tuple(each for each in known if each and each not in self.inherited)
        return replace(self, inherited=self.inherited + more) if more else self

    def under(self, settings: ToolConfiguration) -> ToolCall:
        """Return this call with these settings."""
        return self._copy(self.arguments, settings)

    def with_arguments(self, arguments: Mapping[str, Any]) -> ToolCall:
        """Return this call with other arguments."""
        return self._copy(arguments, self.settings)

    def _copy(self, arguments: Mapping[str, Any], settings: ToolConfiguration | None) -> ToolCall:
        return ToolCall(
            name=self.name,
            arguments=arguments,
            id=self.id,
            called_as=self.called_as,
            session=self.session,
            tool=self.tool,
            settings=settings,
            number=self.number,
            inherited=self.inherited,
            autonomous=self.autonomous,
            stands_in=self.stands_in,
            by_program=self.by_program,
            retried=self.retried,
            given_id=self.given_id,
        )


def comparable(value: Any) -> Any:
    """Return arguments in a form for comparison.

    Null properties are left out, and whole numbers become integers, since a server may write the
    same call in either form.

    Raises:
        RecursionError: The arguments are nested too deeply.

    Example:
        >>> comparable({"seats": 2.0, "note": None})
        {'seats': 2}
    """
    if isinstance(value, Mapping):
        return {key: comparable(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


MAX_ARGUMENT_BYTES = 1_048_576
"""Size limit of a call's arguments if the settings set none, in bytes."""
_BYTES_OF_A_VALUE = 64
"""Minimum size counted for a value or name, in bytes: walking many short ones is slow."""
_MAX_BYTES_OF_A_CHARACTER = 4
_SHORT = frozenset({bool, float, type(None)})
_MAX_HASHED = 10_000
_MAX_OF_TEXTS = 4 << 20
_END_OF_TEXT = 256
_LOW_BITS = (1 << 4096) - 1


def are_too_large(arguments: Mapping[str, Any], max_bytes: int) -> bool:
    """Return whether arguments exceed `max_bytes`; stop as soon as they do.

    Each value and each name counts its text plus 64 bytes, so that their number is bounded too.

    The arguments may be deeply nested or circular.

    Example:
        >>> are_too_large({"seats": [1, 2]}, 261), are_too_large({"seats": [1, 2]}, 260)
        (False, True)
    """
    if type(arguments) is dict and _are_short(arguments, max_bytes):
        return False
    left, parts = max_bytes, [arguments]
    while parts and left >= 0:
        part: Any = parts.pop()
        kind = type(part)
        if kind is str:
            left -= len(part) if part.isascii() else _bytes_of(part, left)
        elif kind is int:
            left -= part.bit_length() // 3
        elif kind not in _SHORT:
            left -= _length_of(part)
            if left >= 0:
                parts += _inside(part)
    return left < 0


def cheap_hash(arguments: Mapping[str, Any]) -> int:
    """Return a hash that differs for most different arguments, at a bounded cost.

    The hash covers the first values, the beginning and the end of long texts, and all lengths.

    Example:
        >>> cheap_hash({"seats": [1, 2]}) == cheap_hash({"seats": [1, 3]})
        False
    """
    digest, left, parts = 0, _MAX_OF_TEXTS, deque[Any]([arguments])
    for _ in range(_MAX_HASHED):
        if not parts:
            break
        part = parts.popleft()
        if isinstance(part, str | bytes | bytearray):
            ends = part[:left], part[-_END_OF_TEXT:]
            digest = hash(
                (digest, len(part), *(bytes(e) if isinstance(e, bytearray) else e for e in ends))
            )
            left = max(left - len(part), _END_OF_TEXT)
        elif isinstance(part, int):
            digest = hash((digest, part.bit_length(), part & _LOW_BITS))
        elif isinstance(part, float | None):
            digest = hash((digest, part))
        else:
            digest = hash((digest, _length_of(part)))
            if len(parts) < _MAX_HASHED:
                parts.extend(itertools.islice(_inside(part), _MAX_HASHED))
    return digest


def _are_short(arguments: dict[Any, Any], most: int) -> bool:
    """Return whether flat arguments are certainly short: a fast check for most calls."""
    left = most - 2 * len(arguments) * _BYTES_OF_A_VALUE
    if left < 0:
        return False
    for name, value in arguments.items():
        kind = type(value)
        if kind is str:
            left -= _MAX_BYTES_OF_A_CHARACTER * len(value)
        elif kind is int:
            left -= value.bit_length()
        elif kind not in _SHORT:
            return False
        if type(name) is not str:
            return False
        left -= _MAX_BYTES_OF_A_CHARACTER * len(name)
    return left >= 0


def _bytes_of(text: str, most: int) -> int:
    return len(text) if len(text) > most else len(text.encode("utf-8", "surrogatepass"))


def _length_of(value: Any) -> int:
    """Return the length of a text, or the minimum size of the values in a collection."""
    if isinstance(value, Mapping):
        return 2 * len(value) * _BYTES_OF_A_VALUE
    if isinstance(value, list | tuple | set | frozenset):
        return len(value) * _BYTES_OF_A_VALUE
    return len(value) if isinstance(value, str | bytes | bytearray) else 0


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        return itertools.chain.from_iterable(value.items())
    return iter(value if isinstance(value, list | tuple | set | frozenset) else ())


def too_large(name: str, max_bytes: int) -> ToolResult:
    """Return the result of a call that does not run, since its arguments are too large."""
    return ToolResult(
        status=ResultStatus.INVALID_ARGUMENT,
        message=say("arguments_too_large", tool=name, bytes=max_bytes),
        reason_code="arguments_too_large",
        retry_hint=say("arguments_too_large_hint"),
    )


def same_arguments(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two calls of a tool have the same arguments; in doubt, return true."""
    try:
        return one is other or bool(comparable(one) == comparable(other))
    except RecursionError:
        return True


def build_repeated_result(name: str, result: ToolResult | None = None) -> ToolResult:
    """Return the result of a repeated call, which does not run again.

    Args:
        name: The name of the tool.
        result: The result of the first run; `None` if it is not known.
    """
    if result is not None:
        return result
    return ToolResult(
        status=ResultStatus.UNKNOWN_OUTCOME,
        message=say("repeated_call", tool=name),
        reason_code=REPEATED,
    )


def normalize_name(text: str, *, longest: int = _MAX_NAME_LENGTH) -> str:
    """Return a name or id from a model, as valid UTF-8 of bounded length.

    A digest distinguishes names that are cut.

    `longest` is at least 65 characters.

    Example:
        >>> normalize_name("get_weather"), len(normalize_name("x" * 1_000_000))
        ('get_weather', 256)
    """
    if len(text) <= longest:
        return text if text.isascii() else utf8_text(text)
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{utf8_text(text[: longest - len(digest) - 1])}…{digest}"


Run: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]
"""Runs a call: a compiled tool, or a policy around one."""
