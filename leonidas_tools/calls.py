"""What flows: a call, its result, and what a tool can see of both."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from leonidas_tools.errors import ToolValidationError
from leonidas_tools.records import record
from leonidas_tools.redaction import PLAIN_REDACTION

if TYPE_CHECKING:
    from leonidas_tools.errors import ToolError
    from leonidas_tools.redaction import Redaction
    from leonidas_tools.settings.models import ToolConfiguration
    from leonidas_tools.tool import Tool

T = TypeVar("T")

_NO_ARGUMENTS: Mapping[str, Any] = {}


class ResultStatus(StrEnum):
    """How a call ended, in the words the model reads."""

    OK = "ok"
    NO_RESULTS = "no_results"
    INVALID_ARGUMENT = "invalid_argument"
    NOT_FOUND = "not_found"
    DISABLED = "disabled"
    DENIED = "denied"
    PENDING_APPROVAL = "pending_approval"
    TIMEOUT = "timeout"
    UNKNOWN_OUTCOME = "unknown_outcome"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOOP = "loop"
    LIMITED = "limited"


_STATUSES: Mapping[str, ResultStatus] = {status.value: status for status in ResultStatus}
_WORDS: Mapping[ResultStatus, str] = {status: status.value for status in ResultStatus}
_OK, _NO_RESULTS = ResultStatus.OK, ResultStatus.NO_RESULTS  # looking them up is slow in 3.11


def known_status(status: str, *more: str) -> str:
    """The status, if there is such a one.

    Args:
        status: The status, or its name in a text.
        more: Other words that stand for a status here.

    Raises:
        ToolValidationError: There is no such status; it knows those there are.

    Example:
        >>> known_status("timeout"), known_status("started", "started")
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
    """A picture or a sound that belongs to a result.

    Args:
        mime_type: Such as `image/png` or `audio/wav`.
        data: The bytes.
    """

    mime_type: str
    data: bytes


@record
class ToolResult:
    """How a call ended: a status, data, and what to tell the model.

    Args:
        status: One of `ResultStatus`.
        result: What the function returned, as plain JSON once the call has ended.
        message: One sentence for the model.
        retryable: Whether calling again can help.
        retry_hint: What to change before calling again.
        reason_code: A short word for programs.
        valid_options: What would have been accepted.
        media: Pictures and sounds, sent beside the JSON.
        speech: A sentence or two that can be spoken, where the result is long.
        cached: Whether it is the result of another call; the model is told only if it is old.
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
        """Whether the tool did what it was asked."""
        return self.status is _OK or self.status is _NO_RESULTS

    @classmethod
    def no_results(cls, message: str, **more: Any) -> ToolResult:
        """Says that the tool worked and found nothing, so that the model need not ask again."""
        return cls(status=ResultStatus.NO_RESULTS, message=message, **more)

    @classmethod
    def not_found(cls, message: str, **more: Any) -> ToolResult:
        """Says that what was asked for does not exist."""
        return cls(status=ResultStatus.NOT_FOUND, message=message, **more)

    @classmethod
    def failed(cls, message: str, **more: Any) -> ToolResult:
        """Says that the tool did not do what it was asked."""
        return cls(status=ResultStatus.FAILED, message=message, **more)

    @classmethod
    def from_error(cls, error: ToolError) -> ToolResult:
        """Turns an error whose message is meant for the model into a result."""
        return cls(
            status=_STATUSES.get(error.status, ResultStatus.FAILED),
            message=error.message or None,
            retryable=error.retryable,
            retry_hint=error.retry_hint,
            reason_code=error.reason_code,
            valid_options=error.valid_options,
            error=error,
        )

    def with_value(
        self, value: Any, message: str | None, *, cached: bool | None = None
    ) -> ToolResult:
        """This result with another value and message, and maybe as that of another call."""
        # As `dataclasses.replace`, which takes five times as long.
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

    def to_response(self) -> dict[str, Any]:
        """The envelope that the model reads: only `None` says nothing and is left out."""
        response: dict[str, Any] = {"status": _WORDS[self.status]}
        if self.result is not None:
            response["result"] = self.result
        if self.message is not None:
            response["message"] = self.message
        if self.speech is not None:
            response["speech"] = self.speech
        response["retryable"] = self.retryable
        if self.retry_hint is not None:
            response["retry_hint"] = self.retry_hint
        if self.reason_code is not None:
            response["reason_code"] = self.reason_code
        if self.valid_options is not None:
            response["valid_options"] = list(self.valid_options)
        return response


class ToolSession:
    """One conversation, and what its calls share.

    Args:
        id: A name for it in logs and events; by default a random one.
        user: Who speaks in it, where that is known.

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
        """The session's one object of this kind, made on first use by calling `kind()`."""
        value: T | None = self._values.get(kind)
        if value is None:
            value = self._values[kind] = kind()
        return value

    def find(self, kind: type[T]) -> T | None:
        """The session's object of this kind, where it has one."""
        return self._values.get(kind)

    def put(self, value: Any, kind: type | None = None) -> None:
        """Gives the session its object of this kind (by default of the value's own)."""
        self._values[kind or type(value)] = value

    def __repr__(self) -> str:
        return f"ToolSession({self.id!r})"


@record
class ToolCall:
    """One request to run a tool.

    Args:
        name: The tool's own name.
        arguments: By parameter name, as the model gave them; validated ones once it runs.
        id: The id the answer must carry; `None` where the server gave none.
        called_as: The name the model used, where it differs from the tool's own.
        session: The conversation it belongs to.
        tool: The tool, once the registry has found it.
        settings: The settings it is pinned to; `None` stands for the defaults.
        number: Its place among the calls of its session.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: _NO_ARGUMENTS)
    id: str | None = None
    called_as: str | None = None
    session: ToolSession = field(default_factory=ToolSession)
    tool: Tool[..., Any] | None = None
    settings: ToolConfiguration | None = None
    number: int = 0

    @property
    def trace_id(self) -> str:
        """Names this call in events, logs and traces, also where the server gave no id."""
        return f"{self.session.id}-{self.number}"

    @property
    def redaction(self) -> Redaction:
        """Takes what is secret for its tool, and in the settings, out of what is said of it."""
        redaction = PLAIN_REDACTION if self.tool is None else self.tool.redaction
        if self.settings is None or not self.settings.secrets:
            return redaction
        return redaction.hiding_texts(self.settings.secrets)

    def under(self, settings: ToolConfiguration) -> ToolCall:
        """This call, pinned to settings."""
        return self._copy(self.arguments, settings)

    def with_arguments(self, arguments: Mapping[str, Any]) -> ToolCall:
        """This call with other arguments."""
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
        )


Run: TypeAlias = Callable[[ToolCall], Awaitable[ToolResult]]
"""Everything runnable: a compiled tool, or a policy around one."""
