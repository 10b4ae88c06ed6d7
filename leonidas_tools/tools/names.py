"""Names that Gemini accepts for tools and parameters, mapped back to the originals."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

MAX_LENGTH: Final = 64
_TOOL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_UNDOTTED_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_PARAMETER_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
_NOT_IN_TOOL_NAME: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_NOT_IN_UNDOTTED_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NOT_IN_PARAMETER_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
_DIGEST_LENGTH: Final = 6

_LISTS_NAMES: Final = frozenset({"required", "propertyOrdering"})
_KEYED_BY_NAMES: Final = frozenset(
    {"properties", "dependentSchemas", "dependentRequired", "dependencies"}
)
_SAME_OBJECT: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})


def legal_names(names: Iterable[str], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return unique names that Gemini accepts for tools, by the original names.

    A legal name does not change. If several names become the same, all but the first get a hash.

    Example:
        >>> legal_names(["weather.get", "wetter/heute"])
        {'weather.get': 'weather.get', 'wetter/heute': 'wetter_heute'}
    """
    return _legal(names, known or {}, _TOOL_NAME, illegal=_NOT_IN_TOOL_NAME)


def undotted_names(names: Iterable[str]) -> dict[str, str]:
    """Return unique names that OpenAI accepts for tools, by the original names.

    OpenAI accepts the same names as Gemini, but no dots.

    Example:
        >>> undotted_names(["weather.get", "weather_get"])["weather_get"]
        'weather_get'
    """
    return _legal(names, {}, _UNDOTTED_NAME, illegal=_NOT_IN_UNDOTTED_NAME)


def _legal(
    names: Iterable[str],
    known: Mapping[str, str],
    pattern: re.Pattern[str],
    *,
    illegal: re.Pattern[str],
) -> dict[str, str]:
    every = list(dict.fromkeys(names))
    legal = {name: known[name] for name in every if name in known}
    taken = {*known.values()}
    legal |= {
        name: name
        for name in every
        if name not in known and name not in taken and pattern.fullmatch(name)
    }
    taken.update(legal.values())
    for name in every:
        if name not in legal:
            legal[name] = _free(name, _cleaned(name, illegal), taken)
            taken.add(legal[name])
    return {name: legal[name] for name in every}


def _cleaned(name: str, illegal: re.Pattern[str]) -> str:
    """Replace illegal characters in a name; a hash keeps truncated names distinct."""
    clean = illegal.sub("_", name)
    if not re.match(r"[a-zA-Z_]", clean):
        clean = f"_{clean}"
    return clean if len(clean) <= MAX_LENGTH else _with_digest(name, clean)


def _with_digest(name: str, clean: str, salt: int = 0) -> str:
    seed = f"{name}{salt or ''}".encode(errors="surrogatepass")
    digest = hashlib.sha256(seed).hexdigest()[:_DIGEST_LENGTH]
    return f"{clean[: MAX_LENGTH - _DIGEST_LENGTH - 1]}_{digest}"


def _free(name: str, clean: str, taken: set[str]) -> str:
    salt, candidate = 0, clean
    while candidate in taken:
        candidate = _with_digest(name, clean, salt)
        salt += 1
    return candidate


def renamed_parameters(
    parameters: Mapping[str, Any],
) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Return a tool's schema with parameter names that Gemini accepts.

    Gemini accepts letters, digits and underscores only: in parameter names no dots or dashes.

    The schema is the same object if nothing is renamed. The second value has the original name by
    each new name.

    Example:
        >>> renamed_parameters({"properties": {"user-id": {}}, "required": ["user-id"]})
        ({'properties': {'user_id': {}}, 'required': ['user_id']}, {'user_id': 'user-id'})
    """
    properties = parameters.get("properties", {})
    legal = _legal(properties, {}, _PARAMETER_NAME, illegal=_NOT_IN_PARAMETER_NAME)
    changed = {own: name for own, name in legal.items() if own != name}
    if not changed:
        return parameters, {}
    return _renamed(parameters, changed), {name: own for own, name in changed.items()}


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """Return a schema of the arguments, or one for the same object, with new names."""
    if not isinstance(schema, Mapping):
        return schema
    return {key: _renamed_keyword(key, value, names) for key, value in schema.items()}


def _renamed_keyword(key: str, value: Any, names: Mapping[str, str]) -> Any:
    if key in _LISTS_NAMES and isinstance(value, list):
        return [names.get(name, name) for name in value]
    if key in _KEYED_BY_NAMES and isinstance(value, Mapping):
        return {names.get(name, name): _dependent(key, of, names) for name, of in value.items()}
    if key in _SAME_OBJECT:
        if isinstance(value, list):
            return [_renamed(entry, names) for entry in value]
        return _renamed(value, names)
    return value


def _dependent(key: str, value: Any, names: Mapping[str, str]) -> Any:
    """Return the value under a property's name: its schema, or what depends on it."""
    if key == "properties":
        return value
    if isinstance(value, list):
        return [names.get(name, name) for name in value]
    return _renamed(value, names)
