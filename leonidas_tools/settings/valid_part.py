"""The valid part of settings with mistakes, so that one check reports all of them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from leonidas_tools.settings.load import (
    FOREIGN,
    check_document,
    configuration_error,
    read_settings,
    settings_document,
)
from leonidas_tools.settings.problem import DocumentError, KeyLines, SettingsDocument, value_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.problem import Finding, KeyPath, Problem

_GONE: Final = object()
"""Replaces a removed list item, so that the others keep their indexes."""
_COMPARED = frozenset(
    {"cache_seconds", "deadline", "on_cancel", "retry_attempts", "scheduling", "stale_if_error"}
)
"""Settings that are checked against others of the tool, of all tools and of the policies."""
_OF_ALL_TOOLS = frozenset({"policies", "policies.default_timeout"})
_NAMES = frozenset({"tools", "tags", "servers"})
"""The names in a rule, which are checked independently of its other keys."""
_OF_TOOLS = frozenset({"defaults", "mcp_servers", "tools", FOREIGN})
_BRING_TOOLS = frozenset({"mcp_servers", "toolboxes", FOREIGN})


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidPart:
    """Settings without their invalid keys."""

    settings: Settings
    problems: Sequence[Problem]
    document: SettingsDocument  # the settings as written
    left_out: frozenset[KeyPath]  # the invalid keys
    # the dotted keys of the file, by those of `settings`: a list may have become shorter
    keys: Mapping[str, str]

    @property
    def lacks_tools(self) -> bool:
        """Return whether the invalid keys may add tools."""
        return any(path[0] in _BRING_TOOLS for path in self.left_out)

    def key_of(self, key: str) -> str:
        """Return the key of the file for a key of the settings."""
        above = key
        while above and above not in self.keys:
            above = above.rpartition(".")[0]
        return self.keys.get(above, "") + key[len(above) :]

    def line_of(self, key: str) -> int | None:
        """Return the line of a key of the file, or of the nearest one above it."""
        return KeyLines(self.document.lines).of(key)

    def bears(self, finding: Finding) -> bool:
        """Return whether a finding, by its key in the file, does not depend on the invalid keys."""
        return all(_is_apart(finding.key, path) for path in self.left_out)


def valid_part(text: str, file: Path) -> ValidPart:
    """Read settings from YAML text, without their invalid keys.

    Raises:
        ConfigurationError: The text is not YAML or no mapping, or a problem is not in its keys.
    """
    try:
        document = settings_document(text)
    except DocumentError:
        document = SettingsDocument()
    if not isinstance(document.data, dict):
        read_settings(text, file)  # raises
    data = copy.deepcopy(document.data)
    problems: list[Problem] = []
    left_out: set[KeyPath] = set()
    rest = document
    while True:
        settings, found = check_document(rest, file)
        found = [replace(each, path=_in_file(data, each.path)) for each in found]
        problems += [each for each in found if not _follows(each.path, left_out)]
        wrong = [each.path for each in found if each not in document.problems]
        if settings is not None and not wrong:
            break
        before = len(left_out)
        for path in wrong:
            if not any(path[: len(gone)] == gone for gone in left_out):
                left_out |= _remove(data, path)
        if len(left_out) == before:  # the problem cannot be removed, such as a variable that is set
            raise configuration_error(problems, document, file)
        rest = SettingsDocument(data=_drop_gaps(data))
    return ValidPart(
        settings=settings,
        problems=problems,
        document=document,
        left_out=frozenset(left_out),
        keys=dict(_keys(data)),
    )


def _is_apart(key: str, left_out: KeyPath) -> bool:
    """Return whether a finding at a key does not depend on a removed key."""
    last = key.rpartition(".")[2]
    section, place, rule = (".".join(map(str, left_out[:length])) for length in (1, 2, 3))
    if key == "environment":
        return section not in _OF_TOOLS
    if last in _COMPARED:
        common = section in {"defaults", "environment"} or place in _OF_ALL_TOOLS
        return not common and not key.startswith(f"{place}.")
    if place == "policies.rules":
        is_rule = key.startswith(f"{place}.") and key.count(".") == place.count(".") + 1
        in_rule = key.startswith(f"{rule}.") and last not in _NAMES
        return not is_rule and not in_rule and last != "question"
    return True


def _follows(path: KeyPath, left_out: Collection[KeyPath]) -> bool:
    """Return whether a problem may result only from a removed key."""
    return any(
        path[: max(len(gone) - 1, 1)] == (gone[:-1] or gone) or path == gone[: len(path)]
        for gone in left_out
    )


def _in_file(data: Any, path: KeyPath) -> KeyPath:
    """Return the path in the file for a path in the data without gaps."""
    found: list[str | int] = []
    for step in path:
        here = step
        if isinstance(data, list) and isinstance(step, int):
            there = [index for index, item in enumerate(data) if item is not _GONE]
            here = there[step] if step < len(there) else step
        found.append(here)
        data = value_at(data, (here,))
    return tuple(found)


def _remove(data: Any, path: KeyPath) -> set[KeyPath]:
    """Remove a key, or the nearest existing key above it, and return its path."""
    if value_at(data, path[:2]) is None and value_at(data, (FOREIGN, *path[1:2])) is not None:
        path = (FOREIGN, *path[1:])  # a server in the format of other programs
    while path:
        *above, last = path
        parent = value_at(data, tuple(above))
        if isinstance(parent, dict) and last in parent:
            del parent[last]
            return {path}
        if isinstance(parent, list) and isinstance(last, int) and last < len(parent):
            parent[last] = _GONE
            return {path}
        path = tuple(above)
    return set()


def _drop_gaps(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _drop_gaps(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_drop_gaps(item) for item in data if item is not _GONE]
    return data


def _keys(data: Any, left: str = "", written: str = "") -> Iterator[tuple[str, str]]:
    """Yield each dotted key of the data without gaps, and its key in the file."""
    yield left, written
    if isinstance(data, dict):
        items = [(str(key), str(key), value) for key, value in data.items()]
    elif isinstance(data, list):
        there = [(index, item) for index, item in enumerate(data) if item is not _GONE]
        items = [(str(number), str(index), item) for number, (index, item) in enumerate(there)]
    else:
        return
    for key, in_file, value in items:
        yield from _keys(value, f"{left}.{key}".lstrip("."), f"{written}.{in_file}".lstrip("."))
