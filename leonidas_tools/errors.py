"""Everything that can go wrong, as one tree.

::

    LeonidasError
    ├── RegistryError               a tool cannot be registered or found
    │   ├── DuplicateToolError
    │   ├── ToolNotFoundError       knows the closest names
    │   ├── SchemaError             a signature or schema that cannot become a tool
    │   └── ToolboxError            a toolbox of the settings that cannot be loaded
    ├── ConfigurationError          knows the file, the line and the key
    ├── ModelError                  a language model gives no answer; knows the reason
    ├── SessionValueError           a session lacks an object that a tool asks it for
    ├── SimulatorError              the Live simulator saw the protocol broken
    ├── StoreError                  what is kept cannot be read or written
    │   └── StaleVersionError       somebody else has changed it meanwhile
    └── ToolError                   raised in or around a tool; the model reads its message
        ├── RetryableError          nothing happened yet: repeating is safe for any effect
        ├── ToolExecutionError
        ├── ToolTimeoutError
        ├── ToolValidationError     knows the path, the reason and the valid options
        ├── ToolDisabledError
        ├── ToolDeniedError
        ├── ToolCancelledError
        └── DependencyError         knows what is missing

Every class has a `level`, which decides how an error is logged, and which the health report shows:

=============  ================================  ============
level          what is affected                  logged as
=============  ================================  ============
``tool``       one call                          ``WARNING``
``pipeline``   a stage, a toolbox or a file      ``ERROR``
``system``     everything, such as the store     ``CRITICAL``
=============  ================================  ============

An exception that is not of this tree comes from a tool, a listener or a server: `WARNING`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ErrorLevel = Literal["tool", "pipeline", "system"]


class LeonidasError(Exception):
    """Raised by this library; the root of the tree."""

    level: ClassVar[ErrorLevel] = "system"


def log_level(error: BaseException) -> int:
    """Return the level of `logging` at which an error is logged.

    Example:
        >>> logging.getLevelName(log_level(ConfigurationError("is not a duration")))
        'ERROR'
    """
    if not isinstance(error, LeonidasError) or error.level == "tool":
        return logging.WARNING
    return logging.ERROR if error.level == "pipeline" else logging.CRITICAL


class RegistryError(LeonidasError):
    """Raised when a tool cannot be registered or found."""

    level: ClassVar[ErrorLevel] = "pipeline"


class DuplicateToolError(RegistryError):
    """Raised when a name is registered a second time."""


class SchemaError(RegistryError):
    """Raised when a signature or a JSON Schema cannot become a tool."""


class ToolboxError(RegistryError):
    """Raised when a toolbox that the settings name cannot be loaded.

    Args:
        name: The toolbox.
        why: What is wrong and what to do about it.
        key: The dotted path of the setting that is wrong, such as `toolboxes.0.files.roots`.
        place: Where the settings name it, such as `tools.yaml:3`; empty where that is unknown.
        problems: Every wrong setting of the toolbox, where there are several.
    """

    def __init__(
        self,
        name: str,
        why: str,
        *,
        key: str = "",
        place: str = "",
        problems: Sequence[ToolboxError] = (),
    ) -> None:
        self.name = name
        self.why = why
        self.key = key
        self.problems = tuple(problems)
        super().__init__(": ".join(part for part in (place, key, why) if part))


class ToolNotFoundError(RegistryError):
    """Raised when no tool has the name.

    Args:
        name: The name that was asked for.
        suggestions: The closest known names, best first.
    """

    level: ClassVar[ErrorLevel] = "tool"

    def __init__(self, name: str, suggestions: Sequence[str] = ()) -> None:
        self.name = name
        self.suggestions = tuple(suggestions)
        hint = f"; did you mean {self.suggestions[0]!r}?" if suggestions else ""
        super().__init__(f"There is no tool {name!r}{hint}")


class ConfigurationError(LeonidasError):
    """Raised when settings are wrong; the message names file, line and key where known.

    Args:
        message: What is wrong and what to do about it.
        file: The settings file.
        line: The line, counted from 1.
        key: The dotted path of the key, such as `tools.get_weather.timeout`.
        problems: Every problem by itself, where the message names several.
    """

    level: ClassVar[ErrorLevel] = "pipeline"

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        key: str | None = None,
        problems: Sequence[ConfigurationError] = (),
    ) -> None:
        self.message = message
        self.problems = tuple(problems)
        self.file = None if file is None else str(file)
        self.line = line
        self.key = key
        place = ":".join(str(p) for p in (self.file, line) if p is not None)
        super().__init__(": ".join(p for p in (place, key, message) if p))


ModelErrorReason = Literal[
    "authentication",
    "connection",
    "context_length",
    "protocol",
    "rate_limited",
    "request",
    "server",
    "timeout",
    "tools_unsupported",
]


class ModelError(LeonidasError):
    """Raised when a language model gives no answer; the message contains no key.

    Args:
        message: What went wrong.
        reason: The kind of failure, a word for programs.
        retryable: Whether asking again can help.
        retry_after_seconds: How long the server wants us to wait, where it says so.
    """

    level: ClassVar[ErrorLevel] = "pipeline"

    def __init__(
        self,
        message: str,
        *,
        reason: ModelErrorReason,
        retryable: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        self.reason: ModelErrorReason = reason
        self.retryable = retryable
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class SessionValueError(LeonidasError):
    """Raised when a session lacks an object that a tool asks it for, and cannot make it.

    The developer reads its message in the log and in `ToolResult.error`; the model does not.
    """

    level: ClassVar[ErrorLevel] = "tool"


class SimulatorError(LeonidasError):
    """Raised when a client broke the Live protocol, or a scenario cannot be played."""


class StoreError(LeonidasError):
    """Raised when what is kept cannot be read or written; calls never suffer from it."""


class StaleVersionError(StoreError):
    """Raised when what is to be changed is no longer what it was when it was read.

    Args:
        message: What it is, and what to do about it.
        current: The version that holds now.
    """

    def __init__(self, message: str, *, current: int) -> None:
        super().__init__(message)
        self.current = current


class ToolError(LeonidasError):
    """Raised by a tool to choose what the model reads.

    Any other exception tells the model only that the tool failed.

    Args:
        message: One sentence for the model.
        status: A `ResultStatus` value; by default the one of the class.
        retryable: Whether calling again can help.
        retry_hint: What to change before calling again.
        reason_code: A short word for programs.
        valid_options: What would have been accepted.

    Example:
        >>> raise ToolError("The shop is closed.", retry_hint="Try after 9 o'clock.")
        Traceback (most recent call last):
        ...
        leonidas_tools.errors.ToolError: The shop is closed.
    """

    level: ClassVar[ErrorLevel] = "tool"
    status: str = "failed"
    retryable: bool = False

    def __init__(
        self,
        message: str = "",
        *,
        status: str | None = None,
        retryable: bool | None = None,
        retry_hint: str | None = None,
        reason_code: str | None = None,
        valid_options: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if status is not None:
            self.status = status
        if retryable is not None:
            self.retryable = retryable
        self.retry_hint = retry_hint
        self.reason_code = reason_code
        self.valid_options = None if valid_options is None else list(valid_options)


class RetryableError(ToolError):
    """Raised by a tool that failed before it changed anything: repeating is safe."""

    retryable = True


class ToolExecutionError(ToolError):
    """Raised when a tool failed for a reason of its own."""


class ToolTimeoutError(ToolError):
    """Raised when a tool took longer than it may."""

    status = "timeout"
    retryable = True


class ToolValidationError(ToolError):
    """Raised when arguments do not fit the tool's schema."""

    status = "invalid_argument"


class ToolDisabledError(ToolError):
    """Raised when a tool is switched off or under maintenance."""

    status = "disabled"


class ToolDeniedError(ToolError):
    """Raised when a policy or a person refused the call."""

    status = "denied"


class ToolCancelledError(ToolError):
    """Raised when a call was cancelled before it ended."""

    status = "cancelled"


class DependencyError(ToolError):
    """Raised when what a tool needs is not there.

    Args:
        missing: What is missing: names of tools, modules or commands.
    """

    status = "unavailable"

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = tuple(missing)
        names = ", ".join(repr(name) for name in self.missing)
        super().__init__(f"The tool needs {names}, which is not available.")
        self.reason_code = "missing_dependency"
