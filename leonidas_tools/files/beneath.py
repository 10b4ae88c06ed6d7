"""Open paths beneath a folder, and refuse every path that leads out of it.

Paths are not compared as text, so no link, no `..` and no swap between check and use leads out.
If the kernel has `openat2`, the kernel does this; otherwise each part of the path is opened by
itself, without following links.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPENAT2: Final = 437  # the number is the same on all architectures that Python 3.11 runs on
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_TRIES: Final = 64
_PATH_ONLY: Final = getattr(os, "O_PATH", 0) | os.O_CLOEXEC
_DIRECTORY: Final = _PATH_ONLY | os.O_DIRECTORY
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KERNEL_FOLDERS: Final = ("/proc", "/sys")
_KINDS: Final = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "directory"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


class OutsideError(OSError):
    """Raised when a path leads out of the folder."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EXDEV, "the path leads out of the folder", path)


class NotRegularError(OSError):
    """Raised when a path leads to something other than a regular file."""

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(errno.EINVAL, f"it is a {kind}, not a regular file", path)
        self.kind = kind


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def kind_of(found: os.stat_result) -> str:
    """Return the kind of a file, such as `file`, `directory` or `link`."""
    return next((name for test, name in _KINDS if test(found.st_mode)), "something else")


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open a path relative to an open folder, and never outside of that folder.

    Links that stay inside are followed if the kernel has `openat2`, and refused otherwise.

    Raises:
        OutsideError: The path leads out of the folder.
        OSError: The path cannot be opened.
    """
    if "\0" in path:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    opened = _openat2 if _has_openat2() else _open_by_walking
    return opened(folder, path or ".", flags | os.O_CLOEXEC)


def open_folder(folder: int, path: str) -> int:
    """Open a folder beneath a folder as a base for other calls."""
    return open_beneath(folder, path, _DIRECTORY)


def open_regular(folder: int, path: str) -> int:
    """Open a regular file for reading, and never open anything else, not even briefly.

    Raises:
        NotRegularError: The path is not a regular file, or is a file of the kernel.
        OSError: The path cannot be opened.
    """
    place = open_beneath(folder, path, _PATH_ONLY)
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegularError(kind_of(status), path)
        if status.st_dev in _kernel_devices():
            raise NotRegularError("file of the kernel", path)
        return os.open(f"/proc/self/fd/{place}", _READ)  # the same file, even after a rename
    finally:
        os.close(place)


def make_folders(folder: int, path: str) -> list[str]:
    """Make the missing folders of a path, and return their paths, the outermost first.

    Raises:
        OSError: A folder cannot be made; the folders already made are removed again.
    """
    made: list[str] = []
    parts = [part for part in path.split("/") if part not in ("", ".")]
    try:
        for count in range(1, len(parts) + 1):
            head, name = "/".join(parts[: count - 1]), parts[count - 1]
            if name == "..":
                continue
            with opened_folder(folder, head) as parent, contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
                made.append("/".join(parts[:count]))
    except BaseException:
        remove_folders(folder, made)
        raise
    return made


def remove_folders(folder: int, made: list[str]) -> None:
    """Remove the folders that `make_folders` made, if they are still empty."""
    for path in reversed(made):
        head, _, name = path.rpartition("/")
        with contextlib.suppress(OSError), opened_folder(folder, head) as parent:
            os.rmdir(name, dir_fd=parent)


@contextlib.contextmanager
def opened_folder(folder: int, path: str) -> Iterator[int]:
    """Open a folder beneath a folder, and close it when the block ends."""
    opened = open_folder(folder, path)
    try:
        yield opened
    finally:
        os.close(opened)


def write_whole(folder: int, name: str, content: bytes, mode: int | None = None) -> os.stat_result:
    """Write a file in an open folder atomically: a reader sees the old or the new content.

    A link with that name is replaced; the target of the link stays unchanged.

    `mode` defaults to the mode of any new file.

    Raises:
        OSError: The file cannot be written; the old content remains.
    """
    temporary = f".{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o666, dir_fd=folder)
    try:
        try:
            if mode is not None:
                os.fchmod(handle, stat.S_IMODE(mode))
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
            status = os.fstat(handle)
        finally:
            os.close(handle)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    return status


@functools.cache
def _has_openat2() -> bool:
    """Return whether the kernel has `openat2` and no system call filter forbids it."""
    handle = os.open("/", _DIRECTORY)
    try:
        os.close(_openat2(handle, ".", _DIRECTORY))
    except (OSError, AttributeError):
        return False
    finally:
        os.close(handle)
    return True


@functools.cache
def _system_call() -> ctypes._NamedFuncPointer:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call


def _openat2(folder: int, path: str, flags: int) -> int:
    how = _OpenHow(flags, 0, _BENEATH | _NO_MAGIC_LINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    call = _system_call()
    number = errno.EAGAIN
    # The kernel returns EAGAIN if something was renamed meanwhile.
    for _ in range(_TRIES):
        opened: int = call(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            size,
        )
        if opened >= 0:
            return opened
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    if number == errno.EXDEV:
        raise OutsideError(path)
    raise OSError(number, os.strerror(number), path)


def _open_by_walking(folder: int, path: str, flags: int) -> int:
    """Open a path part by part, without following any link."""
    if path.startswith("/"):
        raise OutsideError(path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    place = [os.dup(folder)]
    try:
        for part in parts[:-1]:
            _step(place, part, path)
        if not parts:
            return os.open(".", flags, dir_fd=place[-1])
        if parts[-1] == "..":
            _step(place, "..", path)
            return os.open(".", flags, dir_fd=place[-1])
        if stat.S_ISLNK(os.stat(parts[-1], dir_fd=place[-1], follow_symlinks=False).st_mode):
            raise OutsideError(path)
        return os.open(parts[-1], flags | os.O_NOFOLLOW, dir_fd=place[-1])
    finally:
        for handle in place:
            os.close(handle)


def _step(place: list[int], part: str, path: str) -> None:
    """Go one part further; resolve `..` by the folders opened so far, not by the file system."""
    if part == "..":
        if len(place) == 1:
            raise OutsideError(path)
        os.close(place.pop())
        return
    if stat.S_ISLNK(os.stat(part, dir_fd=place[-1], follow_symlinks=False).st_mode):
        raise OutsideError(path)
    place.append(os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=place[-1]))


def _kernel_devices() -> set[int]:
    """Return the device numbers of `/proc` and `/sys`, whose files the kernel generates."""
    found = set()
    for path in _KERNEL_FOLDERS:
        with contextlib.suppress(OSError):
            found.add(Path(path).stat().st_dev)
    return found
