"""The folders that tools may use: each is opened once, and all paths resolve beneath it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from leonidas_tools.files.beneath import OutsideError

Identity: TypeAlias = tuple[object, object]
"""Device and inode; of a file that does not exist, the identity of its folder and its name."""

_PATH_ONLY: Final = getattr(os, "O_PATH", 0) | os.O_CLOEXEC
_FOLDER: Final = _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_MAX_LINKS: Final = 40
_MODE: Final = 0o700


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedPath:
    """A resolved path and its parent directories, from `/` down.

    Args:
        path: The path without links.
        traversed: All folders that decide where the path leads, and the file itself. Whoever may
            write in one of them can put another file there.
        ancestors: Those in which the file lies, and the file itself.
        exists: Whether the file exists.
    """

    path: Path
    traversed: frozenset[Identity]
    ancestors: tuple[Identity, ...]
    exists: bool


class Root:
    """A file or folder that is opened once, and closed with this object.

    A link, a renamed folder or a mount that replaces it later leads nowhere else.

    Args:
        path: An absolute path, or one relative to the working directory; links are followed.
        create: Whether a folder that does not exist is made when it is first used.

    Raises:
        OSError: The path cannot be opened.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     root = Root(folder)
        ...     os.stat(".", dir_fd=root.descriptor) == os.stat(folder)
        True
    """

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self._text = str(path)
        self.given = Path(path).expanduser().absolute()
        """The absolute path, with its links."""
        self._handle, self._resolved = _Walk(self.given).open()
        self._end = weakref.finalize(self, os.close, self._handle)
        self._name = None if self._resolved.exists else self._resolved.path.name
        self._lock = threading.Lock()
        in_parent = (_identity(os.fstat(self._handle)), self._name)
        if self._name is not None and not (create and self._resolved.ancestors[-1] == in_parent):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.given))

    @property
    def path(self) -> Path:
        """Return the path without links, as it was when the root was opened."""
        return self._resolved.path

    @property
    def identity(self) -> Identity:
        """Return the identity of this folder."""
        with self._lock:
            if self._name is None:
                return _identity(os.fstat(self._handle))
            return _identity_in(self._handle, self._name)

    @property
    def ancestors(self) -> tuple[Identity, ...]:
        """Return the folders in which it lies, and its own identity, as when it was opened."""
        return self._resolved.ancestors

    @property
    def is_folder(self) -> bool:
        """Return whether it is a folder."""
        return self._name is not None or stat.S_ISDIR(os.fstat(self._handle).st_mode)

    @property
    def exists(self) -> bool:
        """Return whether it exists, rather than being made when it is first used."""
        return self._name is None

    @property
    def descriptor(self) -> int:
        """Return the open descriptor, which only names the folder; it is made if need be.

        Raises:
            OSError: The folder cannot be made.
        """
        with self._lock:
            if self._name is not None:
                self._create(self._name)
            return self._handle

    def _create(self, name: str) -> None:
        with contextlib.suppress(FileExistsError):  # another toolbox has made it
            os.mkdir(name, _MODE, dir_fd=self._handle)
        handle = os.open(name, _FOLDER, dir_fd=self._handle)
        self._end()
        self._handle, self._name = handle, None
        self._end = weakref.finalize(self, os.close, handle)

    def leaves(self, other: Root) -> bool:
        """Return whether its path leads through another root and out of it again."""
        resolved, identity = self._resolved, other.identity
        return identity in resolved.traversed and identity not in resolved.ancestors

    def __str__(self) -> str:
        """Return the path as given."""
        return self._text

    def __repr__(self) -> str:
        return f"Root({self._text!r})"


@dataclass(frozen=True, slots=True)
class RootedPath:
    """A path beneath a root."""

    root: Root
    path: str  # relative to the root
    shown: str  # the path for the model

    @property
    def name(self) -> str:
        """Return the name to speak."""
        return Path(self.shown).name or self.root.given.name


@dataclass(frozen=True, slots=True)
class Roots:
    """The folders that the tools may use; relative paths begin at the first folder."""

    folders: tuple[Root, ...]

    def place(self, path: str) -> RootedPath:
        """Return the root of a path; the kernel checks later whether the path stays beneath.

        Raises:
            OutsideError: The path is absolute and beneath none of the folders.
            OSError: It is no path.
        """
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path) from None
        given = os.path.expanduser(path)  # noqa: PTH111 - `Path` would drop redundant parts
        if self.folders and not given.startswith("/"):
            return RootedPath(self.folders[0], given, path)
        for folder in self.folders:
            for start in (str(folder.given), str(folder.path)):
                # The order does not matter: a root within a root is beneath both.
                if given == start or given.startswith(f"{start.rstrip('/')}/"):
                    return RootedPath(folder, given[len(start) :].lstrip("/"), path)
        raise OutsideError(path)

    def display_path(self, place: RootedPath, inner: str) -> str:
        """Return a path below a place: relative in the first root, else absolute."""
        path = os.path.normpath(os.path.join(place.path, inner))  # noqa: PTH118 - as above
        return path if place.root is self.folders[0] else str(place.root.given / path)


def resolve_path(path: str | Path) -> ResolvedPath:
    """Return how a path leads to a file, which need not exist.

    Raises:
        OSError: A folder cannot be opened, or the path has too many links.
    """
    handle, resolved = _Walk(Path(path).expanduser().absolute()).open()
    os.close(handle)
    return resolved


class _Walk:
    """Opens a path part by part, so that every folder and link on it is seen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts = deque(path.parts[1:])
        self._handle = os.open("/", _FOLDER)
        self._names: list[str] = []
        self._ancestors = [_identity(os.fstat(self._handle))]
        self._traversed = set(self._ancestors)
        self._links, self._exists = 0, True

    def open(self) -> tuple[int, ResolvedPath]:
        """Return the last file on the path that exists, and the resolved path."""
        try:
            while self._parts:
                self._step(self._parts.popleft())
        except BaseException:
            os.close(self._handle)
            raise
        return self._handle, ResolvedPath(
            path=Path("/", *self._names),
            traversed=frozenset(self._traversed),
            ancestors=tuple(self._ancestors),
            exists=self._exists,
        )

    def _step(self, part: str) -> None:
        if part in ("", "."):
            return
        if part == "..":
            self._enter(part)
            self._names, self._ancestors = self._names[:-1], self._ancestors[:-1] or self._ancestors
            return
        try:
            status = os.stat(part, dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            for name in (part, *self._parts):  # nothing is there yet, and so no links
                self._add(name, (self._ancestors[-1], name))
            self._parts.clear()
            self._exists = False
            return
        if stat.S_ISLNK(status.st_mode):
            self._follow(os.readlink(part, dir_fd=self._handle))
            return
        self._enter(part)
        self._add(part, _identity(os.fstat(self._handle)))

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self._path))
        if target.startswith("/"):
            self._enter("/")
            self._names, self._ancestors = [], self._ancestors[:1]
        self._parts.extendleft(reversed(target.split("/")))

    def _enter(self, part: str) -> None:
        flags = _FOLDER if self._parts else _PATH_ONLY | os.O_NOFOLLOW
        handle = os.open(part, flags, dir_fd=self._handle)
        os.close(self._handle)
        self._handle = handle

    def _add(self, name: str, identity: Identity) -> None:
        self._names.append(name)
        self._ancestors.append(identity)
        self._traversed.add(identity)


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _identity_in(folder: int, name: str) -> Identity:
    try:
        return _identity(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return _identity(os.fstat(folder)), name
