"""Write changed settings to their file at once, and keep its comments and order."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.reading import read_file
from leonidas_tools.settings.document import Loader, Resolvers, compose, read_document
from leonidas_tools.settings.load import read_settings, read_text
from leonidas_tools.settings.problem import DocumentError, KeyPath, value_at

if TYPE_CHECKING:
    from leonidas_tools.settings.models import Settings

_BOM = b"\xef\xbb\xbf"
_ALIAS = re.compile(r"\s*:\s+(\*[^\s,\[\]{}]+)")
_STEP = 2


def update_file(
    path: str | Path,
    changes: Mapping[str, Any],
    *,
    initial: str | None = None,
    check: Callable[[Settings, str], object] = lambda *_: None,
) -> None:
    """Change some settings in a YAML file, and leave every other character as it was.

    The new content is validated first and replaces the old at once: no reader sees half of it.
    A symbolic link stays one; the file it points to is replaced.

    `None` removes a key. `initial` is the text of a file that does not exist yet. `check` receives
    the new settings and their text, and raises to refuse them.

    Raises:
        ConfigurationError: The changes are invalid, or the file cannot be changed; it stays intact.
    """
    path = Path(path)
    new = None if path.exists() else initial
    text = read_text(path) if new is None else new
    edited = _edit(text, changes, path)
    check(read_settings(edited, path), edited)
    if edited == text:
        return
    try:
        if new is None:
            _replace(path, text, edited)
        else:
            _make(path, edited)
    except OSError as error:
        why = error.strerror or error
        message = f"cannot be written ({why}): name a file in a folder you can write to"
        raise ConfigurationError(message, file=path) from None


def apply_changes(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of plain data with changes in the form of `update_file`.

    Raises:
        ConfigurationError: A change leads through a value that is not a mapping.

    Example:
        >>> apply_changes({"tools": {"a": {"timeout": 1}}}, {"tools.a.timeout": None, "version": 1})
        {'tools': {'a': {}}, 'version': 1}
    """
    result = copy.deepcopy(dict(data))
    for path, value in _leaves(changes):
        _apply(result, path, value)
    return result


def _apply(data: dict[str, Any], path: KeyPath, value: Any) -> None:
    inner: Any = data
    for step in path[:-1]:
        if value is None and not inner.get(step):
            return
        if inner.get(step) is None:
            inner[step] = {}
        inner = inner[step]
        if not isinstance(inner, dict):
            message = "has a value where a mapping is needed: remove it first"
            raise ConfigurationError(message, key=_format_path(path))
    if value is None:
        inner.pop(path[-1], None)
    elif value != {} or not isinstance(inner.get(path[-1]), dict):
        inner[path[-1]] = value


def _leaves(changes: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every single change: its path, and its value as plain data."""
    for key, value in changes.items():
        yield from _leaves_below(tuple(key.split(".")), _plain(value, key))


def _leaves_below(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Any]]:
    if not isinstance(value, dict) or not value:
        yield path, value
        return
    for key, item in value.items():
        yield from _leaves_below((*path, key), item)


def _plain(value: Any, key: str) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Mapping):
        return {str(name): _plain(item, f"{key}.{name}") for name, item in value.items()}
    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except PydanticSerializationError:
        message = f"a {type(value).__name__} cannot be written to YAML: give plain data"
        raise ConfigurationError(message, key=key) from None


def _edit(text: str, changes: Mapping[str, Any], file: Path) -> str:
    """Return the text with all changes, and verify that nothing else changes."""
    try:
        before = read_document(text).data
    except DocumentError:
        before = None
    if not isinstance(before, dict):
        read_settings(text, file)  # raises the error with its problems
    expected = apply_changes(before, changes)
    for path, value in _leaves(changes):
        try:
            text = _edit_key(text, path, value)
        except _EditError as error:
            raise ConfigurationError(str(error), file=file, key=_format_path(path)) from None
        except DocumentError:
            raise ConfigurationError(_SHARED, file=file, key=_format_path(path)) from None
    if not _is_same(_data(text), expected):
        raise ConfigurationError(_SHARED, file=file, key=", ".join(changes))
    return text


_SHARED = "cannot be changed without changing something else: edit the file by hand"


def _edit_key(text: str, path: KeyPath, value: Any) -> str:
    if value is None:
        return delete_key(text, path)
    if value == {} and isinstance(value_at(_data(text), path), dict):
        return text
    return set_key(text, path, value)


def _data(text: str) -> Any:
    try:
        return read_document(text).data
    except DocumentError:
        return None


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two data are equal; an empty section equals `{}`."""
    if isinstance(one, dict) or isinstance(other, dict):
        one, other = one or {}, other or {}
        return (
            isinstance(one, dict)
            and isinstance(other, dict)
            and one.keys() == other.keys()
            and all(_is_same(one[key], other[key]) for key in one)
        )
    return type(one) is type(other) and bool(one == other)


def _format_path(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _replace(path: Path, before: str, after: str) -> None:
    """Replace the file at once, unless another program has changed it meanwhile."""
    target = path.resolve(strict=True)
    content = read_file(target)
    status = target.stat()
    bom = _BOM if content.startswith(_BOM) else b""
    if content != bom + before.encode():
        message = "was changed by someone else at the same time: try again"
        raise ConfigurationError(message, file=path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(bom + after.encode())
            file.flush()
            os.fsync(handle)
        with contextlib.suppress(PermissionError):
            os.chown(name, status.st_uid, status.st_gid)
        Path(name).chmod(stat.S_IMODE(status.st_mode))
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _make(path: Path, text: str) -> None:
    """Create a file, with the usual permissions; raise `FileExistsError` if it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Sync the directory, if the system can, so that a new name survives a power failure."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _EditError(Exception):
    """Raised when a text cannot be changed at a place without a person's judgement."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Write text with line breaks, or other unprintable characters, quoted on one line."""
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _merge_resolvers(one: Resolvers, other: Resolvers) -> Resolvers:
    letters = {*one, *other}
    return {letter: [*one.get(letter, []), *other.get(letter, [])] for letter in letters}


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes all text that YAML 1.1 or 1.2 would parse as another type."""

    yaml_implicit_resolvers = _merge_resolvers(
        yaml.SafeDumper.yaml_implicit_resolvers, Loader.yaml_implicit_resolvers
    )
    yaml_representers: ClassVar[dict[Any, Any]] = {
        **yaml.SafeDumper.yaml_representers,
        str: _represent_text,
    }

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the parent's signature
        """Write shared values in full."""
        return True


def set_key(text: str, path: KeyPath, value: Any) -> str:
    r"""Return the text with a key set; create missing mappings on its path.

    Raises:
        _EditError: The value there is shared with another place, or is not a mapping.

    Example:
        >>> set_key("tools:\n  a: {}  # mine\n", ("tools", "a", "timeout"), "2s")
        'tools:\n  a: {timeout: 2s}  # mine\n'
    """
    place = _find(text, path)
    if place.entry is None:
        return _insert(text, place, value)
    if not place.rest:
        return _replace_value(text, place.entry, value)
    if place.entry.is_null(text):
        return _replace_value(text, place.entry, _nest(place.rest, value))
    raise _EditError("has a value where a mapping is needed: remove it first")


def delete_key(text: str, path: KeyPath) -> str:
    r"""Return the text without a key, unchanged if the key does not exist.

    Raises:
        _EditError: The value there is shared with another place.

    Example:
        >>> delete_key("a: 1\n# about b\nb: 2\nc: 3\n", ("b",))
        'a: 1\n# about b\nc: 3\n'
        >>> delete_key("a:\n  b: 2\nc: 3\n", ("a", "b"))
        'a: {}\nc: 3\n'
    """
    place = _find(text, path)
    if place.entry is None or place.rest:
        return text
    entry, entries = place.entry, place.entries
    if not place.mapping.flow_style:
        if len(entries) == 1 and len(path) > 1:  # nothing below a key would not be a mapping
            return set_key(text, path[:-1], {})
        start = text.rfind("\n", 0, entry.key_start) + 1
        return text[:start] + text[_line_end(text, entry.end) :]
    index = [other.key_start for other in entries].index(entry.key_start)
    if index + 1 < len(entries):
        return text[: entry.key_start] + text[entries[index + 1].key_start :]
    start = entries[index - 1].end if index else entry.key_start
    return text[:start] + text[entry.end :]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """A key and its value with their positions in the text."""

    key: yaml.Node
    value: Any
    start: int
    end: int  # comments left out
    is_alias: bool  # whether the value is only a reference to another value

    @property
    def key_start(self) -> int:
        return _mark(self.key.start_mark)

    @property
    def key_column(self) -> int:
        return 0 if self.key.start_mark is None else self.key.start_mark.column

    def is_null(self, text: str) -> bool:
        return not self.is_alias and text[self.start : self.end] in ("", "~", "null")

    def is_block(self) -> bool:
        """Return whether the value is a collection in block style."""
        is_collection = isinstance(self.value, yaml.CollectionNode)
        return is_collection and not self.is_alias and not self.value.flow_style


@dataclass(frozen=True, kw_only=True, slots=True)
class _PathPosition:
    """The innermost mapping on a path, its entries, the entry on the path, the keys below it."""

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
            raise _EditError("shares its value with another place by an alias: edit the file")
        node = entry.value
    return _PathPosition(mapping=node, entries=entries, entry=entry, key=str(key), rest=rest)


def _entry(text: str, key: yaml.Node, value: yaml.Node) -> _Entry:
    after_key = _mark(key.end_mark)
    start = _mark(value.start_mark)
    if start < after_key:  # an alias is composed into the node it refers to
        match = _ALIAS.match(text, after_key)
        if match is None:
            raise _EditError("is written in a way that cannot be changed here: edit the file")
        return _Entry(key=key, value=value, start=match.start(1), end=match.end(1), is_alias=True)
    return _Entry(key=key, value=value, start=start, end=_end(text, value), is_alias=False)


def _end(text: str, node: yaml.Node) -> int:
    """Return where a node ends; the end mark of a block is after the comments that follow it."""
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
    """Add a key after the last one of its mapping."""
    if place.mapping.flow_style:
        close = _mark(place.mapping.end_mark) - 1
        before = text[:close].rstrip()
        comma = "" if before.endswith(("{", ",")) else ","
        space = "" if before.endswith("{") else " "
        inner = _flow(_nest((place.key, *place.rest), value))[1:-1]
        return before + comma + space + inner + text[close:]
    lines = _lines(text, (place.key, *place.rest), value, place.entries[0].key_column)
    return _splice(text, _line_end(text, place.entries[-1].end), lines)


def _replace_value(text: str, entry: _Entry, value: Any) -> str:
    flow = _flow(value)
    if not entry.is_block():
        space = "" if text[entry.start - 1].isspace() else " "
        return text[: entry.start] + space + flow + text[entry.end :]
    colon = text.index(":", _mark(entry.key.end_mark)) + 1
    first_line = text.rfind("\n", 0, entry.start) + 1
    rest = text[_line_end(text, entry.end) :]
    return f"{text[:colon]} {flow}{text[colon:first_line]}{rest}"


def _nest(path: KeyPath, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _flow(value: Any) -> str:
    """Return the value on one line, in a form that is also valid inside brackets."""
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
    """Return a key in block style, with the keys below it."""
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
    """Return the position after the line break that ends the line."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _mark(mark: Any) -> int:
    return 0 if mark is None else int(mark.index)
