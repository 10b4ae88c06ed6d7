"""YAML text with one key changed, and every other character as it was."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from leonidas_tools.settings.document import Loader, Resolvers, compose
from leonidas_tools.settings.problem import DocumentError, KeyPath

_ALIAS = re.compile(r"\s*:\s+(\*[^\s,\[\]{}]+)")
_STEP = 2


class EditError(Exception):
    """Raised when a text cannot be changed at a place without a person's judgement."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Text with line breaks goes in double quotes, on one line."""
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _either(one: Resolvers, other: Resolvers) -> Resolvers:
    letters = {*one, *other}
    return {letter: [*one.get(letter, []), *other.get(letter, [])] for letter in letters}


class _Dumper(yaml.SafeDumper):
    """Quotes all text that YAML 1.1 or 1.2 would take for something else."""

    yaml_implicit_resolvers = _either(
        yaml.SafeDumper.yaml_implicit_resolvers, Loader.yaml_implicit_resolvers
    )
    yaml_representers: ClassVar[dict[Any, Any]] = {
        **yaml.SafeDumper.yaml_representers,
        str: _represent_text,
    }

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the parent's signature
        """Write everything out."""
        return True


def set_key(text: str, path: KeyPath, value: Any) -> str:
    r"""Return the text with a key set; mappings on the way are made where missing.

    Raises:
        EditError: The value there is shared with another place, or is no mapping.

    Example:
        >>> set_key("tools:\n  a: {}  # mine\n", ("tools", "a", "timeout"), "2s")
        'tools:\n  a: {timeout: 2s}  # mine\n'
    """
    place = _find(text, path)
    if place.entry is None:
        return _insert(text, place, value)
    if not place.rest:
        return _replace(text, place.entry, value)
    if place.entry.is_null(text):
        return _fill(text, place, value)
    raise EditError("holds a value where a mapping is needed: remove it first")


def delete_key(text: str, path: KeyPath) -> str:
    r"""Return the text without a key; the same where it is not there.

    Raises:
        EditError: The value there is shared with another place.

    Example:
        >>> delete_key("a: 1\n# about b\nb: 2\nc: 3\n", ("b",))
        'a: 1\n# about b\nc: 3\n'
    """
    place = _find(text, path)
    if place.entry is None or place.rest:
        return text
    entry, entries = place.entry, place.entries
    if not place.mapping.flow_style:
        start = text.rfind("\n", 0, entry.key_start) + 1
        return text[:start] + text[_line_end(text, entry.end) :]
    index = [other.key_start for other in entries].index(entry.key_start)
    if index + 1 < len(entries):
        return text[: entry.key_start] + text[entries[index + 1].key_start :]
    start = entries[index - 1].end if index else entry.key_start
    return text[:start] + text[entry.end :]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """A key and its value with their positions in the text.

    Args:
        key: The key's node.
        value: The value's node.
        start: Where the value begins.
        end: Where it ends, comments left out.
        is_alias: Whether the value is only a reference to one elsewhere.
    """

    key: yaml.Node
    value: Any
    start: int
    end: int
    is_alias: bool

    @property
    def key_start(self) -> int:
        return _mark(self.key.start_mark)

    @property
    def key_column(self) -> int:
        return 0 if self.key.start_mark is None else self.key.start_mark.column

    def is_null(self, text: str) -> bool:
        return not self.is_alias and text[self.start : self.end] in ("", "~", "null")

    def is_block(self) -> bool:
        """Return whether it is a collection on lines of its own."""
        is_collection = isinstance(self.value, yaml.CollectionNode)
        return is_collection and not self.is_alias and not self.value.flow_style


@dataclass(frozen=True, kw_only=True, slots=True)
class _PathPosition:
    """The innermost mapping on a path, its entries, the one on the path, the keys beyond it."""

    mapping: yaml.MappingNode
    entries: list[_Entry]
    entry: _Entry | None
    key: str
    rest: KeyPath


def _find(text: str, path: KeyPath) -> _PathPosition:
    node = compose(text)
    if not isinstance(node, yaml.MappingNode):
        raise DocumentError("should be a mapping")
    for depth, key in enumerate(path, start=1):
        entries = [_entry(text, k, v) for k, v in node.value]
        entry = next((e for e in entries if e.key.value == key), None)
        rest = path[depth:]
        if entry is None or not rest or not isinstance(entry.value, yaml.MappingNode):
            break
        if entry.is_alias:
            raise EditError("shares its value with another place by an alias: edit the file")
        node = entry.value
    return _PathPosition(mapping=node, entries=entries, entry=entry, key=str(key), rest=rest)


def _entry(text: str, key: yaml.Node, value: yaml.Node) -> _Entry:
    after_key = _mark(key.end_mark)
    start = _mark(value.start_mark)
    if start < after_key:  # an alias is composed into the node it refers to
        match = _ALIAS.match(text, after_key)
        if match is None:
            raise EditError("is written in a way that cannot be changed here: edit the file")
        return _Entry(key=key, value=value, start=match.start(1), end=match.end(1), is_alias=True)
    return _Entry(key=key, value=value, start=start, end=_end(text, value), is_alias=False)


def _end(text: str, node: yaml.Node) -> int:
    """Return where a node ends; a block's own mark stands behind the comments that follow it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        if isinstance(node, yaml.MappingNode):
            return _entry(text, *last).end
        node = last
    end = _mark(node.end_mark)
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return len(text[:end].rstrip())
    return end


def _insert(text: str, place: _PathPosition, value: Any) -> str:
    """Add a key behind the last one of its mapping."""
    if place.mapping.flow_style:
        close = _mark(place.mapping.end_mark) - 1
        before = text[:close].rstrip()
        comma = "" if before.endswith(("{", ",")) else ","
        space = "" if before.endswith("{") else " "
        inner = _flow(_nested((place.key, *place.rest), value))[1:-1]
        return before + comma + space + inner + text[close:]
    lines = _lines(text, (place.key, *place.rest), value, place.entries[0].key_column)
    return _splice(text, _line_end(text, place.entries[-1].end), lines)


def _fill(text: str, place: _PathPosition, value: Any) -> str:
    """Give a key that has no value a mapping."""
    entry = place.entry
    assert entry is not None
    if entry.start < entry.end or place.mapping.flow_style:
        return _replace(text, entry, _nested(place.rest, value))
    lines = _lines(text, place.rest, value, entry.key_column + _STEP)
    return _splice(text, _line_end(text, entry.end), lines)


def _replace(text: str, entry: _Entry, value: Any) -> str:
    flow = _flow(value)
    if not entry.is_block():
        space = "" if text[entry.start - 1].isspace() else " "
        return text[: entry.start] + space + flow + text[entry.end :]
    colon = text.index(":", _mark(entry.key.end_mark)) + 1
    first_line = text.rfind("\n", 0, entry.start) + 1
    rest = text[_line_end(text, entry.end) :]
    return f"{text[:colon]} {flow}{text[colon:first_line]}{rest}"


def _nested(path: KeyPath, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _flow(value: Any) -> str:
    """Return the value on one line, fit to stand inside brackets too."""
    dumped: str = yaml.dump(
        [value],
        Dumper=_Dumper,
        default_flow_style=True,
        allow_unicode=True,
        sort_keys=False,
        width=sys.maxsize,
    )
    return dumped.strip()[1:-1]


def _lines(text: str, path: KeyPath, value: Any, column: int) -> str:
    """Return a key in block style, with the keys beyond it below."""
    newline = _newline(text)
    *outer, last = [
        f"{' ' * (column + _STEP * depth)}{_flow(key)}:" for depth, key in enumerate(path)
    ]
    return "".join(f"{line}{newline}" for line in [*outer, f"{last} {_flow(value)}"])


def _splice(text: str, position: int, lines: str) -> str:
    before = text[:position]
    if before and not before.endswith("\n"):
        before += _newline(text)
    return before + lines + text[position:]


def _line_end(text: str, position: int) -> int:
    """Behind the line break that ends the line."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _mark(mark: Any) -> int:
    return 0 if mark is None else int(mark.index)
