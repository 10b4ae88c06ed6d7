"""Mask secrets in values: arguments, results and messages."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from leonidas_tools.redaction.known import MIN_SECRET_CHARACTERS, KnownSecrets, together
from leonidas_tools.redaction.marks import secret_marks
from leonidas_tools.redaction.names import is_secret_name
from leonidas_tools.redaction.text import MASK, distinct, may_hold_secret, redact_text

_DEEPEST = 64
_MAX_NAME_CHARACTERS = 128

_json_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, kw_only=True, slots=True)
class Redaction:
    """Masks the secrets in the arguments, results and messages of a tool's calls.

    Args:
        names: Names of secrets, in addition to those that `is_secret_name` recognises.
        everything: Whether all arguments are secret.
        known: Texts that are secret wherever they occur.
        hides_all: Whether everything is masked, since the secrets are too many to search for.

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
    known: tuple[KnownSecrets, ...] = ()
    hides_all: bool = False

    @classmethod
    def of_schema(cls, schema: Mapping[str, Any]) -> Redaction:
        """Return the redaction for the marks of a JSON Schema; see `secret_marks`."""
        names, everything = secret_marks(schema)
        return cls(names=names, everything=everything) if names or everything else PLAIN_REDACTION

    def __call__(self, value: Any) -> Any:
        """Return a copy of the value with secrets masked."""
        if self.hides_all:
            return {MASK: MASK} if isinstance(value, Mapping) else MASK
        if self.known:
            value = together(self.known)(value)
        return self._mask(value, 0)

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a call's arguments with secrets masked."""
        if self.everything:
            return dict.fromkeys(arguments, MASK)
        shown: Any = dict(arguments)
        if self.known:
            shown = together(self.known)(shown)
        return self._mask_mapping(shown, 0)

    def to_json(self, value: Any) -> str:
        """Return the value as JSON text with secrets masked.

        A search for hints of secrets in the text takes a tenth of the time of checking each value,
        and rarely finds any.

        Args:
            value: A result or a message, as plain JSON; for arguments, the result of `arguments`.
        """
        text = _json_text(value)
        return text if self.is_needless(text) else _json_text(self(value))

    def hides(self, value: Any) -> bool:
        """Return whether masking would change a value.

        Args:
            value: Plain JSON.

        Example:
            >>> PLAIN_REDACTION.hides({"city": "Lisbon"}), PLAIN_REDACTION.hides({"token": "abc"})
            (False, True)
        """
        return not self.is_needless(_json_text(value)) and bool(self(value) != value)

    def is_needless(self, text: str) -> bool:
        """Return whether masking would leave a value unchanged.

        Args:
            text: The value as JSON, without escapes of characters outside ASCII.
        """
        return not (self.names or self.known or self.hides_all or may_hold_secret(text))

    @property
    def declares(self) -> bool:
        """Return whether any secret is declared."""
        return bool(self.names) or self.everything

    def naming(self, names: Iterable[str]) -> Redaction:
        """Return a redaction that also masks the values of these names."""
        more = self.names.union(names)
        return self if more == self.names else replace(self, names=more)

    def hiding(self, arguments: Mapping[str, Any]) -> Redaction:
        """Return a redaction that also masks the secret arguments wherever they occur.

        It masks everything if they are too many, or too long, to search for on the event loop.
        """
        known = KnownSecrets(self._secrets(arguments, 0))
        return replace(self, hides_all=True) if known.are_many else self.knowing(known)

    def knowing(self, *known: KnownSecrets) -> Redaction:
        """Return a redaction that also masks these known secrets wherever they occur."""
        more = tuple(secrets for secrets in known if secrets)
        return replace(self, known=self.known + more) if more else self

    def declared_in(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        """Yield the texts of arguments that are declared secret; the look of a name is ignored."""
        return self._secrets(arguments, 0, by_name=False)

    def _mask(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return self._mask_text(value, depth)
        if kind is int or kind is float or value is None or kind is bool:
            return value
        if depth > _DEEPEST:
            return MASK
        if isinstance(value, Mapping):
            return self._mask_mapping(value, depth + 1)
        if isinstance(value, list | tuple):
            return [self._mask(item, depth + 1) for item in value]
        return self._mask(str(value), depth)

    def _mask_text(self, text: str, depth: int) -> str:
        """Mask a text; mask a JSON text by the names in it too, since models write objects so."""
        inner = self._in_json(text, by_name=True)
        if inner is None or depth > _DEEPEST:
            return MASK if self._quotes_name(text) else redact_text(text)
        without = self._mask(inner, depth + 1)
        return redact_text(text) if without == inner else _json_text(without)

    def _in_json(self, text: str, *, by_name: bool) -> Any:
        """Return the value of a JSON text that may have secrets by their names, else `None`."""
        if not text.lstrip().startswith(("{", "[")):
            return None
        if not (any(name in text for name in self.names) or (by_name and may_hold_secret(text))):
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None

    def _quotes_name(self, text: str) -> bool:
        """Return whether a text looks like an object with a declared name, but is not JSON."""
        return text.lstrip().startswith(("{", "[")) and any(
            f'"{name}"' in text or f"'{name}'" in text for name in self.names
        )

    def _mask_mapping(self, values: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        without, counts = dict[str, Any](), dict[str, int]()
        for key, item in values.items():
            shown = redact_text(str(key))
            if shown != key:
                shown = distinct(shown, (without, values), counts)
            is_masked = self._is_masked(key, item)
            without[shown] = MASK if is_masked else self._mask(item, depth)
        if "value" in without and _is_named_secret(values):
            without["value"] = MASK
        return without

    def _is_masked(self, key: Any, value: Any) -> bool:
        if value is None or type(key) is not str:
            return False
        if self._is_declared(key):
            return True
        return value is not True and value is not False and value != "" and is_secret_name(key)

    def _is_declared(self, name: Any) -> bool:
        """Return whether a name is declared, in any case and with any punctuation."""
        if not self.names or type(name) is not str:
            return False
        if name in self.names:
            return True
        return len(name) <= _MAX_NAME_CHARACTERS and _normalize_name(name) in _normalize_names(
            self.names
        )

    def _secrets(
        self, value: Any, depth: int, *, masked: bool = False, by_name: bool = True
    ) -> Iterator[str]:
        """Yield the texts of the masked values."""
        masked = masked or self.everything
        if depth > _DEEPEST:
            return
        if isinstance(value, Mapping):
            for key, item in value.items():
                is_masked = self._is_masked(key, item) if by_name else self._is_declared(key)
                yield from self._secrets(
                    item, depth + 1, masked=masked or is_masked, by_name=by_name
                )
        elif isinstance(value, list | tuple):
            for item in value:
                yield from self._secrets(item, depth + 1, masked=masked, by_name=by_name)
        elif isinstance(value, str) and not masked:
            yield from self._secrets_in_text(value, depth, by_name=by_name)
        elif masked and isinstance(value, str | int | float) and not isinstance(value, bool):
            yield str(value)

    def _secrets_in_text(self, text: str, depth: int, *, by_name: bool) -> Iterator[str]:
        """Yield the secrets in a JSON text; all of another text that quotes a declared name."""
        inner = self._in_json(text, by_name=by_name)
        if inner is None and self._quotes_name(text):
            yield text
        else:
            yield from self._secrets(inner, depth + 1, by_name=by_name)


@functools.lru_cache(maxsize=4096)
def _normalize_name(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


@functools.lru_cache(maxsize=1024)
def _normalize_names(names: frozenset[str]) -> frozenset[str]:
    return frozenset(map(_normalize_name, names))


PLAIN_REDACTION = Redaction()
"""Redaction by names and by the look of texts only."""


def secrets_in(values: Mapping[str, Any], known: Collection[str] = ()) -> tuple[str, ...]:
    """Return the secret texts among the values, by name or from `known`, the longest first.

    Example:
        >>> secrets_in({"api_key": "abcd", "units": "metric", "place": "in 17bis"}, {"17bis"})
        ('17bis', 'abcd')
    """
    long = [text for text in known if len(text) >= MIN_SECRET_CHARACTERS]
    found = {text for text in long if any(text in each for each in texts_in(values))}
    return KnownSecrets(found.union(PLAIN_REDACTION._secrets(values, 0))).texts  # noqa: SLF001


def without_names(value: Any, names: Collection[str]) -> Any:
    """Return a copy of plain JSON with the values of these names masked, and nothing else.

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


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in plain data, without the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(item)


def redact(value: Any) -> Any:
    """Return a copy of plain JSON with secrets masked by their names and their look.

    Example:
        >>> redact({"user": "ana", "password": "hunter2", "headers": ["Authorization: Basic YQ=="]})
        {'user': 'ana', 'password': '***', 'headers': ['Authorization: ***']}
    """
    return PLAIN_REDACTION(value)


def _is_named_secret(values: Mapping[Any, Any]) -> bool:
    """Return whether an object is a pair such as `{"name": "Authorization", "value": …}`."""
    name = values.get("name", values.get("key"))
    return isinstance(name, str) and is_secret_name(name)
