"""Values in which secrets are masked: arguments, results, messages."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from leonidas_tools.redaction.marks import secret_marks
from leonidas_tools.redaction.names import is_secret_name
from leonidas_tools.redaction.text import MASK, may_hold_secret, redact_text

_SHORTEST_SECRET = 4
"""Shorter values, such as `1` or `on`, keep nothing secret and occur in any text."""
_DEEPEST = 64

_json_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, kw_only=True, slots=True)
class Redaction:
    """Takes the secrets out of the arguments, results and messages of a tool's calls.

    Args:
        names: Names that stand for secrets, beside those that are known as such.
        everything: Whether all arguments are secret.
        hidden: Texts that are secret wherever they stand.

    Example:
        >>> schema = {"properties": {"code": {"type": "string", "format": "password"}}}
        >>> redaction = Redaction.of_schema(schema)
        >>> redaction({"door": "back", "code": "4711"})
        {'door': 'back', 'code': '***'}
        >>> redaction.hiding({"door": "back", "code": "4711"})("opened the back door with 4711")
        'opened the back door with ***'
    """

    names: frozenset[str] = frozenset()
    everything: bool = False
    hidden: tuple[str, ...] = ()

    @classmethod
    def of_schema(cls, schema: Mapping[str, Any]) -> Redaction:
        """What a JSON Schema marks by `format: password`, `writeOnly` or `x-secret`.

        Args:
            schema: The parameters of a tool.
        """
        names, everything = secret_marks(schema)
        return cls(names=names, everything=everything) if names or everything else PLAIN_REDACTION

    def __call__(self, value: Any) -> Any:
        """A copy of the value in which secrets are masked.

        Args:
            value: A result or a message, as plain JSON.
        """
        return self._without(value, 0)

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of a call's arguments in which secrets are masked."""
        if self.everything:
            return dict.fromkeys(arguments, MASK)
        return self._without_in(arguments, 0)

    def to_json(self, value: Any) -> str:
        """The value as a JSON text in which secrets are masked.

        Looking for hints of secrets in the text takes a tenth of the time that looking at each
        value takes, and seldom finds any.

        Args:
            value: A result or a message, as plain JSON; of arguments, what `arguments` returns.
        """
        text = _json_text(value)
        return text if self.is_needless(text) else _json_text(self(value))

    def is_needless(self, text: str) -> bool:
        """Whether it would take nothing out of a value.

        Args:
            text: The value as JSON, with all but ASCII unescaped.
        """
        return not (self.names or self.hidden or may_hold_secret(text))

    def naming(self, names: Iterable[str]) -> Redaction:
        """This, and whatever goes by one of these names."""
        more = self.names.union(names)
        return self if more == self.names else replace(self, names=more)

    def hiding(self, arguments: Mapping[str, Any]) -> Redaction:
        """This, and the secrets among the arguments wherever they stand, such as in a result."""
        return self.hiding_texts(self._secrets(arguments, 0))

    def hiding_texts(self, texts: Iterable[str]) -> Redaction:
        """This, and these texts wherever they stand; none that is too short to tell."""
        found = {text for text in texts if len(text) >= _SHORTEST_SECRET}
        if found <= set(self.hidden):
            return self
        return replace(self, hidden=_longest_first(found.union(self.hidden)))

    def _without(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            for text in self.hidden:
                value = value.replace(text, MASK)
            return redact_text(value)
        if kind is int or kind is float or value is None or kind is bool:
            return value
        if depth > _DEEPEST:
            return MASK
        if isinstance(value, Mapping):
            return self._without_in(value, depth + 1)
        if isinstance(value, list | tuple):
            return [self._without(item, depth + 1) for item in value]
        return self._without(str(value), depth)

    def _without_in(self, values: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        without = {
            self._without(str(key), depth): MASK
            if self._is_masked(key, item)
            else self._without(item, depth)
            for key, item in values.items()
        }
        if "value" in without and _is_named_secret(values):
            without["value"] = MASK
        return without

    def _is_masked(self, key: Any, value: Any) -> bool:
        if value is None or type(key) is not str:
            return False
        if key in self.names:
            return True
        return value is not True and value is not False and value != "" and is_secret_name(key)

    def _secrets(self, value: Any, depth: int, *, masked: bool = False) -> Iterator[str]:
        """The texts of whatever is masked."""
        masked = masked or self.everything
        if depth > _DEEPEST:
            return
        if isinstance(value, Mapping):
            for key, item in value.items():
                is_masked = masked or self._is_masked(key, item)
                yield from self._secrets(item, depth + 1, masked=is_masked)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from self._secrets(item, depth + 1, masked=masked)
        elif masked and isinstance(value, str | int | float) and not isinstance(value, bool):
            yield str(value)


PLAIN_REDACTION = Redaction()
"""Knows secrets by name and by look alone."""


def secrets_in(values: Mapping[str, Any], known: Collection[str] = ()) -> tuple[str, ...]:
    """The texts among the values that are secret, by name or known as such, the longest first.

    Args:
        values: Plain JSON.
        known: Texts that are secret.

    Example:
        >>> secrets_in({"api_key": "abcd", "units": "metric", "place": "in 17bis"}, {"17bis"})
        ('17bis', 'abcd')
    """
    long = [text for text in known if len(text) >= _SHORTEST_SECRET]
    found = {text for text in long if any(text in each for each in _texts(values))}
    return _longest_first(found.union(PLAIN_REDACTION.hiding(values).hidden))


def without_texts(value: Any, texts: Iterable[str]) -> Any:
    """A copy of plain JSON in which these texts are masked, and nothing else.

    Example:
        >>> without_texts({"said": ["key abcd", 1]}, ["abcd"])
        {'said': ['key ***', 1]}
    """
    if isinstance(value, str):
        for text in texts:
            value = value.replace(text, MASK)
        return value
    if isinstance(value, Mapping):
        return {key: without_texts(item, texts) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_texts(item, texts) for item in value]
    return value


def without_names(value: Any, names: Collection[str]) -> Any:
    """A copy of plain JSON in which what goes by one of these names is masked, and nothing else.

    Example:
        >>> without_names({"owner": "ana", "accounts": [{"iban": "PT50", "balance": 7}]}, {"iban"})
        {'owner': 'ana', 'accounts': [{'iban': '***', 'balance': 7}]}
    """
    if isinstance(value, Mapping):
        return {
            key: MASK if key in names and item is not None else without_names(item, names)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_names(item, names) for item in value]
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(texts, key=lambda text: (-len(text), text)))


def redact(value: Any) -> Any:
    """A copy of a value, plain JSON, in which secrets are masked by name and by look.

    Example:
        >>> redact({"user": "ana", "password": "hunter2", "headers": ["Authorization: Basic YQ=="]})
        {'user': 'ana', 'password': '***', 'headers': ['Authorization: ***']}
    """
    return PLAIN_REDACTION(value)


def _is_named_secret(values: Mapping[Any, Any]) -> bool:
    """Whether it is a pair such as `{"name": "Authorization", "value": …}`."""
    name = values.get("name", values.get("key"))
    return isinstance(name, str) and is_secret_name(name)
