"""Search files without ripgrep: a separate program, so that a slow expression can be killed.

It searches the current directory, opens no link, and prints like ripgrep: the path, a NUL, the
line number, a colon.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import sys
from collections.abc import Iterator

MAX_BYTES = 64 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def main(pattern: str, glob: str, ignore_case: str, start: str) -> None:
    """Print the positions of the lines that match a pattern."""
    expression = re.compile(pattern.encode(), re.IGNORECASE if ignore_case == "yes" else 0)
    begin = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    if start:
        _search(begin, start, expression, start)
        return
    for path, folder, name in _files(begin, ""):
        if _fits(path, name, glob):
            _search(folder, name, expression, path)


def _fits(path: str, name: str, glob: str) -> bool:
    if not glob:
        return True
    if "/" in glob:
        return fnmatch.fnmatchcase(path, glob.lstrip("/").replace("**/", "*"))
    return fnmatch.fnmatchcase(name, glob)


def _files(folder: int, path: str) -> Iterator[tuple[str, int, str]]:
    folders = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.name.startswith(".") or "\n" in entry.name:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                yield f"{path}{entry.name}", folder, entry.name
    for name in folders:
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        except OSError:
            continue
        try:
            yield from _files(inner, f"{path}{name}/")
        finally:
            os.close(inner)


def _search(folder: int, name: str, expression: re.Pattern[bytes], path: str) -> None:
    try:
        handle = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            return
        data = file.read(MAX_BYTES)
    if b"\0" in data:
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if expression.search(line.removesuffix(b"\r")):
            sys.stdout.buffer.write(b"%s\0%d:\n" % (os.fsencode(path), number))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
