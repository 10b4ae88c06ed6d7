"""The text files of a folder, in pieces that can be remembered."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leonidas_tools.files.beneath import open_regular
from leonidas_tools.results.jsonable import is_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_FILES = 2_000
MOST_FILE_BYTES = 512 * 1024
_LONGEST_PIECE = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderListing:
    """The files of a folder that may be read.

    Args:
        files: When each was changed, in seconds since the epoch, by its path in the folder.
        left_out: How many are too big, too many, or have a name that is no text.
    """

    files: dict[str, float]
    left_out: int


def list_files(folder: Path) -> FolderListing:
    """List the regular files beneath a folder; hidden ones and links are no part of it.

    Raises:
        OSError: The folder cannot be read.
    """
    files: dict[str, float] = {}
    left_out = 0
    with os.scandir(folder):  # says why it cannot be read, which a walk does not
        pass
    for place, folders, names, handle in os.fwalk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            try:
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            except OSError:  # it is gone already
                continue
            if not stat.S_ISREG(found.st_mode):
                continue
            path = os.path.relpath(Path(place) / name, folder)
            is_too_much = found.st_size > MOST_FILE_BYTES or len(files) >= MOST_FILES
            if is_too_much or not is_utf8(path):
                left_out += 1
                continue
            files[path] = found.st_mtime
    return FolderListing(files=files, left_out=left_out)


def read_pieces(folder: Path, path: str) -> list[str] | None:
    """Return the text of a file in pieces; `None` where it is no text in UTF-8.

    Raises:
        OSError: It cannot be read, or leads out of the folder.
    """
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        handle = open_regular(root, path)
    finally:
        os.close(root)
    with os.fdopen(handle, "rb") as file:
        data = file.read(MOST_FILE_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else list(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """Yield paragraphs, short ones together and long ones cut between words."""
    waiting = ""
    for paragraph in re.split(r"\n\s*\n", text):
        rest = paragraph.strip()
        if waiting and len(waiting) + len(rest) > _LONGEST_PIECE:
            yield waiting
            waiting = ""
        while len(rest) > _LONGEST_PIECE:
            end = rest.rfind(" ", 1, _LONGEST_PIECE)
            end = end if end > 0 else _LONGEST_PIECE
            yield rest[:end]
            rest = rest[end:].strip()
        if rest:
            waiting = f"{waiting}\n\n{rest}" if waiting else rest
    if waiting:
        yield waiting
