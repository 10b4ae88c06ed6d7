"""Mask the secrets of one call in everything that leaves its tool."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from leonidas_tools.redaction.known import KnownSecrets, together
from leonidas_tools.redaction.values import without_names

_MAX_NAMED = 256
"""Most values under secret names searched for in the other texts of a call."""
_DEEPEST = 64


class Masking:
    """Masks the secrets of one call in its tool's results, errors and progress.

    Args:
        known: The texts that are secret.
        names: Names in results whose values are secret; these values are masked elsewhere too.

    Example:
        >>> mask = Masking([KnownSecrets(["s3cr3t-zebra"])], names={"iban"})
        >>> mask({"iban": "PT50-0002", "said": "PT50-0002 with s3cr3t-zebra"})
        {'iban': '***', 'said': '*** with ***'}
    """

    __slots__ = ("_known", "_named", "_names", "_parts")

    def __init__(self, known: Collection[KnownSecrets], names: Collection[str] = ()) -> None:
        self._parts = tuple(known)
        self._known = together(self._parts)
        self._names = names
        self._named: set[str] = set()

    def __call__(self, value: Any) -> Any:
        """Return plain JSON with the secrets masked."""
        if self._names:
            self._learn(value)
            value = without_names(value, self._names)
        return self._known(value) if self._known else value

    @property
    def is_slow(self) -> bool:
        """Return whether masking even a short text would block the event loop."""
        return any(part.are_many for part in self._parts)

    def are_in(self, data: bytes) -> bool:
        """Return whether any secret occurs in the bytes."""
        return self._known.are_in(data)

    def _learn(self, value: Any) -> None:
        """Add the values under secret names to the known secrets, to mask them without the name."""
        found = set[str]()
        for text in _find_values(value, self._names, 0):
            if len(self._named) + len(found) >= _MAX_NAMED:
                break
            found.add(text)
        if not found <= self._named:
            self._named |= found
            self._parts = (*self._parts, KnownSecrets(found))
            self._known = together(self._parts)


def _find_values(
    value: Any, names: Collection[str], depth: int, *, named: bool = False
) -> Iterator[str]:
    """Yield the texts and numbers under the names, also within JSON texts."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _find_values(item, names, depth + 1, named=named or key in names)
    elif isinstance(value, list):
        for item in value:
            yield from _find_values(item, names, depth + 1, named=named)
    elif isinstance(value, str) and not named:
        yield from _find_values(_parse_named(value, names), names, depth + 1)
    elif named and value is not None and type(value) is not bool:
        yield str(value)


def _parse_named(text: str, names: Collection[str]) -> Any:
    """Return the value of a JSON text that contains one of the names, else `None`."""
    if text[:1] not in ("{", "[") or not any(name in text for name in names):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
