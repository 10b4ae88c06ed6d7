"""Validate arguments by a JSON Schema: strictly at first, then with defaults and coercion.

Coercion and error messages are imported when arguments do not fit for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from leonidas_tools.errors import ToolValidationError
from leonidas_tools.json_schema.defaults import TooManyDefaultsError, fill_of
from leonidas_tools.json_schema.document import (
    MAX_ARGUMENT_DEPTH,
    MAX_WORK,
    Document,
    is_too_deep,
)
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from leonidas_tools.redaction import KnownSecrets


class ArgumentValidator:
    """Validates arguments by a JSON Schema; a call returns them completed and coerced.

    Strictly valid arguments are returned unchanged, with defaults filled in. Others are coerced
    if that is safe ("7" to a number, 7.0 to an integer, "true" to a boolean, a JSON text to an
    array or an object, null for an optional parameter left out), and in no other case. Nothing is
    fetched: a reference resolves inside the schema. A `pattern` with a lookaround or a
    backreference is logged and not checked.

    Args:
        schema: A JSON Schema of any draft from 4 to 2020-12, by its `$schema`; 2020-12 without.

    Raises:
        SchemaError: The schema is not valid, has an unknown reference, or is too large to check.

    Example:
        >>> validate = ArgumentValidator({
        ...     "type": "object",
        ...     "properties": {"n": {"type": "integer"}, "unit": {"default": "m"}},
        ... })
        >>> validate({"n": "7"})
        {'n': 7, 'unit': 'm'}
    """

    __slots__ = ("_document", "_fill", "_is_plain", "is_valid")

    is_valid: Callable[[Any], bool]
    """Returns whether an instance is valid, without defaults and coercion."""

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        self._document = document = Document(schema)
        self.is_valid = document.validator.is_valid
        self._fill = fill_of(document)
        self._is_plain = not document.has_integers and self._fill is None

    def __call__(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with defaults filled in, and coerced if necessary.

        Raises:
            ToolValidationError: They do not fit the schema; the message has each path and reason.
        """
        if type(arguments) is not dict:
            arguments = dict(arguments)
        try:
            if self._document.may_be_costly:
                self._refuse_cost(arguments)
            valid = self.is_valid(arguments)
            if valid and self._is_plain:
                return arguments
            return self._complete(arguments) if valid else self._repair(arguments)
        except UnicodeError as error:
            raise _refusal("have half a character (a lone surrogate)") from error
        except ValueError as error:  # raised by jsonschema-rs for values without a JSON form
            from leonidas_tools.json_schema.problems import without_json

            raise without_json(arguments) from error

    def is_too_costly(self, instance: Any) -> bool:
        """Return whether validating an instance of any size would block the event loop."""
        return self._document.work(instance) > MAX_WORK

    def _refuse_cost(self, arguments: dict[str, Any]) -> None:
        if self.is_too_costly(arguments):
            if is_too_deep(arguments):
                raise _refusal(say("argument_too_deep"))
            raise _refusal(
                "take too many checks by the tool's schema: give fewer or simpler values"
            )

    def _complete(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return valid arguments with whole floats as integers and defaults filled in."""
        if self._document.has_integers:
            for value in arguments.values():
                if type(value) in _MAY_HOLD_A_FLOAT and _has_whole_float(value):
                    arguments = _coerce(self._document, arguments)
                    break
        return self._fill_defaults(arguments)

    def _repair(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Coerce arguments that are not valid, and raise if they remain invalid."""
        if is_too_deep(arguments):
            raise _refusal(say("argument_too_deep"))
        coerced = _coerce(self._document, arguments)
        if coerced is not arguments and self._document.may_be_costly:
            self._refuse_cost(coerced)  # a text may have become an array
        filled = self._fill_defaults(coerced)
        if coerced is not arguments and self.is_valid(coerced):
            return filled
        if filled is not coerced:
            self._refuse_cost(filled)  # a default may be of any size
            if self.is_valid(filled):
                return filled  # some schemas require what they have a default for
        from leonidas_tools.json_schema.problems import error_in

        raise error_in(self._document, coerced)

    def _fill_defaults(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._fill is None:
            return arguments
        try:
            filled: dict[str, Any] = self._fill(arguments)
        except TooManyDefaultsError as error:
            raise _refusal("leave out too much that has a default: give fewer values") from error
        except RecursionError as error:  # the schema refers to itself for the same value
            raise _refusal(say("argument_too_deep")) from error
        return filled


_MAY_HOLD_A_FLOAT: Final = frozenset({float, dict, list})


def error_without(
    secrets: Sequence[KnownSecrets],
    error: ToolValidationError,
    validate: Callable[[Mapping[str, Any]], object],
    arguments: Mapping[str, Any],
) -> ToolValidationError:
    """Return an error about arguments that quotes none of the secrets in them.

    Args:
        secrets: The secrets.
        error: The error that `validate` has raised.
        validate: Validates the arguments.
        arguments: The invalid arguments.
    """
    from leonidas_tools.redaction.known import together

    masked: Any = dict(arguments)
    try:
        masked = together(secrets)(masked)
        if masked == arguments:
            return error
        validate(masked)
    except RecursionError:
        return _refusal(say("argument_too_deep"))
    except ToolValidationError as other:
        return other
    except TypeError:  # a key that is not a string
        from leonidas_tools.json_schema.problems import without_json

        return without_json(arguments)
    return _refusal(say("argument_schema"))


def _has_whole_float(value: Any, levels: int = MAX_ARGUMENT_DEPTH) -> bool:
    """Return whether a value contains a whole float, which may have to become an integer."""
    if isinstance(value, float):
        return value.is_integer()
    if levels == 0 or not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return any(_has_whole_float(part, levels - 1) for part in parts)


def _coerce(document: Document, arguments: dict[str, Any]) -> dict[str, Any]:
    from leonidas_tools.json_schema.coercion import coerce

    return cast("dict[str, Any]", coerce(document, arguments))


def _refusal(reason: str) -> ToolValidationError:
    from leonidas_tools.json_schema.report import SchemaProblem, error_of

    return error_of([SchemaProblem(path=(), reason=reason)])
