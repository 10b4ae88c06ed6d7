"""Settings written back to their file: comments and order stay, and it is all or nothing."""

from __future__ import annotations

import contextlib
import copy
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.reading import read_file
from leonidas_tools.settings.document import read_document
from leonidas_tools.settings.edit import EditError, delete_key, set_key
from leonidas_tools.settings.load import read_settings, read_text
from leonidas_tools.settings.problem import DocumentError, KeyPath

if TYPE_CHECKING:
    from leonidas_tools.settings.models import Settings

_BOM = b"\xef\xbb\xbf"


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

    Args:
        path: The file.
        changes: Values by dotted key; `None` removes a key.
        initial: The text of a file that is not there yet.
        check: Takes the new settings and their text, and raises where they are to be refused.

    Raises:
        ConfigurationError: The changes are wrong, or the file cannot be changed; it stays intact.
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


def changed(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of plain data with changes as `update_file` takes them.

    Raises:
        ConfigurationError: A change leads through a value that is not a mapping.

    Example:
        >>> changed({"tools": {"a": {"timeout": 1}}}, {"tools.a.timeout": None, "version": 1})
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
            message = "holds a value where a mapping is needed: remove it first"
            raise ConfigurationError(message, key=_dotted(path))
    if value is None:
        inner.pop(path[-1], None)
    elif value != {} or not isinstance(inner.get(path[-1]), dict):
        inner[path[-1]] = value


def _leaves(changes: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every single change: the keys that lead to it, and plain data."""
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
    """Return the text with all changes made, and nothing else said than before."""
    try:
        before = read_document(text).data
    except DocumentError:
        before = None
    if not isinstance(before, dict):
        read_settings(text, file)  # says what is wrong with it
    expected = changed(before, changes)
    for path, value in _leaves(changes):
        try:
            text = _edited(text, path, value)
        except EditError as error:
            raise ConfigurationError(str(error), file=file, key=_dotted(path)) from None
        except DocumentError:
            raise ConfigurationError(_SHARED, file=file, key=_dotted(path)) from None
    if not _same(_data(text), expected):
        raise ConfigurationError(_SHARED, file=file, key=", ".join(changes))
    return text


_SHARED = "cannot be changed without changing something else: edit the file by hand"


def _edited(text: str, path: KeyPath, value: Any) -> str:
    if value is None:
        return delete_key(text, path)
    if value == {} and isinstance(_at(_data(text), path), dict):
        return text
    return set_key(text, path, value)


def _at(data: Any, path: KeyPath) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def _data(text: str) -> Any:
    try:
        return read_document(text).data
    except DocumentError:
        return None


def _same(one: Any, other: Any) -> bool:
    """Return whether two data say the same; a section with nothing in it is as good as `{}`."""
    if isinstance(one, dict) or isinstance(other, dict):
        one, other = one or {}, other or {}
        return (
            isinstance(one, dict)
            and isinstance(other, dict)
            and one.keys() == other.keys()
            and all(_same(one[key], other[key]) for key in one)
        )
    return type(one) is type(other) and bool(one == other)


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _replace(path: Path, before: str, after: str) -> None:
    """Put the new text in the file's place at once, unless someone else was faster."""
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
    """Make a file, unless someone else was faster; who may read it is as with any new file."""
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
    """Make the new name last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
