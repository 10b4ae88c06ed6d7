"""`${NAME}` and `${NAME:-default}` in settings, replaced by the environment's values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from leonidas_tools.redaction import is_secret_name
from leonidas_tools.settings.problem import KeyPath, Problem

_SHORTEST_OPAQUE = 8
_VARIABLE = r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?"


class Expansion:
    """Replaces variables in plain data, and remembers where.

    Args:
        environ: The environment's values by name.

    Example:
        >>> expansion = Expansion({"HOST": "example.org"})
        >>> expansion.expand({"url": "https://${HOST}:${PORT:-443}", "text": "$${HOST}"})
        {'url': 'https://example.org:443', 'text': '${HOST}'}
        >>> expansion.secret
        {('url',)}
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.secret: set[KeyPath] = set()
        """Where a value came from the environment: no message may show it."""
        self.written: dict[str, str] = {}
        """How what came from the environment is written, by what it has become."""
        self.values: set[str] = set()
        """What the environment says that may be secret: no word, or of a variable named so."""
        self.problems: list[Problem] = []

    def expand(self, value: Any, path: KeyPath = ()) -> Any:
        """Return the same data with every variable replaced, a new object where it changed."""
        if isinstance(value, str):
            return self._text(value, path) if "${" in value else value
        if isinstance(value, Mapping):
            return {key: self.expand(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.expand(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def _text(self, text: str, path: KeyPath) -> str:
        def replace(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            name, default = match[1], match[2]
            if name is None:
                self._refuse("write ${NAME}, ${NAME:-default}, or $${ for a plain ${", path)
                return match[0]
            self.secret.add(path)
            value = self._environ.get(name)
            if value and (is_secret_name(name) or _is_opaque(value)):
                self.values.add(value)
            if default is not None:
                return value or default
            if value is None:
                self._refuse(
                    f"the environment variable {name!r} is not set: "
                    f"set it, or write ${{{name}:-default}}",
                    path,
                )
            return value or ""

        expanded = re.sub(_VARIABLE, replace, text)
        if path in self.secret:
            self.written[expanded] = text
        return expanded

    def _refuse(self, message: str, path: KeyPath) -> None:
        self.problems.append(Problem(message, path))


def _is_opaque(value: str) -> bool:
    """Return whether a value is long and unusual enough not to occur in ordinary text."""
    return len(value) >= _SHORTEST_OPAQUE and not value.isalpha()
