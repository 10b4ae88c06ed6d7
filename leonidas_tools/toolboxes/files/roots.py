"""The folders that the tools may use, and their errors for the model."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from leonidas_tools.errors import ToolError
from leonidas_tools.files.beneath import NotRegularError, OutsideError
from leonidas_tools.results.texts import say

_MEANINGS: Mapping[int, tuple[str, str]] = {
    errno.ENOENT: ("not_found", "no_such_file"),
    errno.ENOTDIR: ("not_found", "not_a_directory"),
    errno.EISDIR: ("failed", "is_a_directory"),
    errno.EACCES: ("denied", "no_permission"),
    errno.EPERM: ("denied", "no_permission"),
    errno.EROFS: ("denied", "read_only"),
    errno.ELOOP: ("denied", "link_loop"),
    errno.ENOSPC: ("failed", "no_space"),
    errno.EDQUOT: ("failed", "no_space"),
    errno.EFBIG: ("failed", "no_space"),
    errno.ENAMETOOLONG: ("invalid_argument", "name_too_long"),
    errno.EINVAL: ("invalid_argument", "no_such_name"),
}
"""Status and reason code by `errno`; each reason code is also the key of a text."""


@dataclass(frozen=True, slots=True)
class RootedPath:
    """A path beneath a root."""

    root: Path
    path: str  # relative to the root
    shown: str  # the path for the model

    @property
    def name(self) -> str:
        """Return the name to speak."""
        return Path(self.shown).name or self.root.name

    @contextlib.contextmanager
    def opened_root(self) -> Iterator[int]:
        """Open the root, and close it when the block ends."""
        handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield handle
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class Roots:
    """The folders that the tools may use; relative paths begin at the first folder."""

    folders: tuple[Path, ...]  # absolute

    def place(self, path: str) -> RootedPath:
        """Return the root of a path; the kernel checks later whether the path stays beneath.

        Raises:
            ToolError: The path is absolute and beneath none of the folders, or is not valid.
        """
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            message = say("no_such_name", path=path)
            raise ToolError(
                message, status="invalid_argument", reason_code="no_such_name"
            ) from None
        given = os.path.expanduser(path)  # noqa: PTH111 - `Path` would drop redundant parts
        if not given.startswith("/"):
            return RootedPath(self.folders[0], given, path)
        for folder in self.folders:
            # The order does not matter: a root within a root is beneath both.
            if given == str(folder) or given.startswith(f"{str(folder).rstrip('/')}/"):
                return RootedPath(folder, given[len(str(folder)) :].lstrip("/"), path)
        raise outside(path)

    def shown(self, place: RootedPath, inner: str) -> str:
        """Return a path below a place: relative in the first root, else absolute."""
        path = os.path.normpath(os.path.join(place.path, inner))  # noqa: PTH118 - as above
        return path if place.root == self.folders[0] else str(place.root / path)


def outside(path: str) -> ToolError:
    """Return the error for a path that leads out of the roots."""
    return ToolError(say("outside_roots", path=path), status="denied", reason_code="outside_roots")


@contextlib.contextmanager
def reached(place: RootedPath) -> Iterator[None]:
    """Convert `OSError` into errors for the model."""
    try:
        yield
    except OutsideError as error:
        raise outside(place.shown) from error
    except NotRegularError as error:
        if error.kind == "directory":
            said, code = say("is_a_directory", path=place.shown), "is_a_directory"
        else:
            said, code = say("not_a_file", path=place.shown, kind=error.kind), "not_a_file"
        raise ToolError(said, reason_code=code) from error
    except OSError as error:
        status, code = _MEANINGS.get(error.errno or 0, ("failed", "file_error"))
        values = {"reason": error.strerror or str(error)} if code == "file_error" else {}
        said = say(code, path=place.shown, **values)
        raise ToolError(said, status=status, reason_code=code) from error
