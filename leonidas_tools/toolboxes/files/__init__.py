"""Read, write, edit, list and search files beneath the folders that the settings name."""

from __future__ import annotations

import contextlib
import heapq
import os
import stat
import weakref
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import ToolError
from leonidas_tools.files.beneath import (
    NotRegularError,
    OutsideError,
    kind_of,
    make_folders,
    open_beneath,
    open_regular,
    opened_folder,
    remove_folders,
    write_whole,
)
from leonidas_tools.files.roots import RootedPath, Roots
from leonidas_tools.results.texts import say
from leonidas_tools.settings.fields import Count, Duration, Name, Switch
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.settings.root_settings import Folders, workspace
from leonidas_tools.toolboxes.files.content import Content, is_same, read_content, too_big
from leonidas_tools.toolboxes.files.faults import convert_errors
from leonidas_tools.toolboxes.files.search import Search, lines_at, search
from leonidas_tools.tools.tool import Tool, tool
from leonidas_tools.tools.toolbox import Toolbox

__all__ = ["TOOLBOX", "FilesSettings", "make_tools"]

_KILOBYTE = 1024
_PROGRAM_FILES = frozenset({
    ".devcontainer", ".envrc", ".git", ".githooks", ".hg", ".husky", ".idea", ".svn", ".vscode",
})  # fmt: skip
"""Files and folders whose content other programs run, such as hooks and tasks."""
_MAX_SPOKEN = 3
_PATH_ONLY = getattr(os, "O_PATH", 0)

FilePath = Annotated[str, Field(min_length=1, max_length=4096)]
Line = Annotated[int, Field(ge=1)]
Pattern = Annotated[str, Field(min_length=1, max_length=1000)]


class FilesSettings(SettingsModel):
    """Settings of the file tools.

    Args:
        roots: The folders whose files may be used, relative to the working directory; relative
            paths of files begin at the first folder. By default, `workspace` next to the settings
            file, which is made when it is first used.
        writable: Whether files may be written.
        max_file_kilobytes: The maximum size of a file to read or write.
        max_lines: The maximum number of lines that one call reads.
        max_entries: The maximum number of folder entries to list.
        max_matches: The maximum number of lines that a search finds.
        encoding: The encoding of a text that is not UTF-8 and has no byte order mark.
        timeout: The timeout of a search.
    """

    roots: Folders = workspace()
    writable: Switch = True
    max_file_kilobytes: Count = 4096
    max_lines: Count = 2000
    max_entries: Count = 500
    max_matches: Count = 100
    encoding: Name = "cp1252"
    timeout: Duration = 20.0


def program_files(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fact that rules can match: parts of the path that make other programs run."""
    return {"program_files": _program_parts(arguments["path"])}


def _program_parts(path: str) -> list[str]:
    return [part for part in path.casefold().split("/") if part in _PROGRAM_FILES]


class FileTools:
    """The file tools."""

    def __init__(self, settings: FilesSettings) -> None:
        self._settings = settings
        self._most_bytes = settings.max_file_kilobytes * _KILOBYTE
        self._roots = Roots(settings.roots)

    @tool(category="storage", effect="read", tags=["files"])
    def read_file(
        self,
        path: FilePath,
        first_line: Line = 1,
        last_line: Line | None = None,
        encoding: str | None = None,
    ) -> ToolResult:
        """Read a text file, or some of its lines.

        Args:
            path: The file.
            first_line: The first line to read, counted from 1.
            last_line: The last line to read.
            encoding: Its encoding, such as utf-8 or gb18030, where it is not detected.
        """
        with convert_errors(path):
            place = self._roots.place(path)
            content = self._content(place)
        text, found = content.text(path, encoding, self._settings.encoding)
        lines = text.replace("\r\n", "\n").split("\n")
        if lines[-1] == "":
            lines.pop()
        if lines and first_line > len(lines):
            raise ToolError(
                say("no_such_line", path=path, lines=len(lines)),
                status="invalid_argument",
                reason_code="no_such_line",
            )
        last = min(last_line or len(lines), len(lines), first_line - 1 + self._settings.max_lines)
        value: dict[str, Any] = {
            "path": path,
            "text": "\n".join(lines[first_line - 1 : last]),
            "first_line": first_line,
            "last_line": last,
            "lines": len(lines),
            "encoding": found,
        }
        if content.is_changing:
            value["is_changing"] = True
        if last - first_line + 1 == len(lines):
            return ToolResult(result=value, speech=_has_lines(place, len(lines)))
        speech = say(
            "file_lines_read", name=place.name, first=first_line, last=last, lines=len(lines)
        )
        return ToolResult(result=value, speech=speech)

    @tool(
        category="storage",
        effect="idempotent",
        lane="files",
        on_cancel="undo",
        tags=["files"],
        facts=program_files,
    )
    def write_file(
        self, path: FilePath, content: str, ctx: ToolContext, overwrite: bool = True
    ) -> ToolResult:
        """Write a text file; missing folders are created, and existing content is replaced.

        Args:
            path: The file.
            content: Its whole new content.
            overwrite: Whether an existing file may be replaced.
        """
        data = content.encode("utf-8", errors="replace")
        with convert_errors(path):
            place = self._roots.place(path)
            writer = FileWriter(place, ctx, self._most_bytes)
            if writer.before is not None and not overwrite:
                raise ToolError(say("file_exists", path=path), reason_code="file_exists")
            writer.write(data)
        key = "file_written" if writer.before is None else "file_replaced"
        return ToolResult(
            result={"path": path, "bytes": len(data), "created": writer.before is None},
            speech=say(key, name=place.name),
        )

    @tool(
        category="storage",
        effect="once",
        lane="files",
        on_cancel="undo",
        tags=["files"],
        facts=program_files,
    )
    def edit_file(
        self,
        path: FilePath,
        old_text: Annotated[str, Field(min_length=1)],
        new_text: str,
        ctx: ToolContext,
        replace_all: bool = False,
    ) -> ToolResult:
        """Replace a text in a file; read the file first.

        Args:
            path: The file.
            old_text: The text to replace, exactly as it is in the file, and found there only once.
            new_text: What to put there.
            replace_all: Whether to replace it wherever it is found.
        """
        with convert_errors(path):
            place = self._roots.place(path)
            writer = FileWriter(place, ctx, self._most_bytes)
            if writer.before is None:
                raise FileNotFoundError(2, os.strerror(2), path)
            content = read_content(writer.before.handle, path, self._most_bytes)
            text, encoding = content.text(path, None, self._settings.encoding)
            old, new = (_match_line_ends(text, each) for each in (old_text, new_text))
            count = text.count(old)
            if count == 0:
                raise ToolError(say("text_not_there", path=path), reason_code="text_not_there")
            if count > 1 and not replace_all:
                message = say("text_more_than_once", path=path, count=count)
                raise ToolError(message, reason_code="text_more_than_once")
            length = len(text) + count * (len(new) - len(old))
            if length > self._most_bytes:  # seen before so long a text is made
                raise too_big(path, length, self._most_bytes)
            writer.write(_encode(text.replace(old, new), encoding, path), was=content)
        return ToolResult(
            result={"path": path, "replaced": count},
            speech=say(
                "file_edited" if count == 1 else "file_edited_often", name=place.name, count=count
            ),
        )

    @tool(category="storage", effect="read", tags=["files"])
    def list_directory(self, path: FilePath = ".", hidden: bool = False) -> ToolResult:
        """List what is in a folder.

        Args:
            path: The folder; by default the first that may be used.
            hidden: Whether to list names that begin with a dot.
        """
        with convert_errors(path):
            place = self._roots.place(path)
            flags = os.O_RDONLY | os.O_DIRECTORY
            handle = open_beneath(place.root.descriptor, place.path, flags)
            try:
                names, total = _first_names(handle, self._settings.max_entries, hidden=hidden)
                entries = [_entry(handle, name) for name in names]
            finally:
                os.close(handle)
        value = {"path": path, "total": total, "entries": entries}
        if not entries:
            message = say("empty_folder", name=place.name)
            return ToolResult(result=value, speech=message)
        names = [each["name"] for each in entries[:_MAX_SPOKEN]]
        key = "folder_listed" if total <= _MAX_SPOKEN else "long_folder_listed"
        return ToolResult(
            result=value, speech=say(key, name=place.name, count=total, names=", ".join(names))
        )

    async def search_in_files(
        self,
        pattern: Pattern,
        path: FilePath = ".",
        glob: Annotated[str, Field(max_length=200)] = "",
        ignore_case: bool = False,
    ) -> ToolResult:
        """Search text files for a regular expression; hidden and binary files are skipped.

        Args:
            pattern: The regular expression, which is matched line by line.
            path: The folder or file to search.
            glob: Which files, such as *.py or src/**/*.md.
            ignore_case: Whether to ignore upper and lower case.
        """
        with (
            convert_errors(path),
            _folder_and_name(place := self._roots.place(path)) as (folder, name),
        ):
            wanted = Search(
                pattern=pattern,
                glob=glob.lstrip("!"),
                ignore_case=ignore_case,
                only=name,
                most=self._settings.max_matches,
            )
            places, more = await search(folder, wanted)
            matches = await lines_at(
                folder, places, decode=self._settings.encoding, most_bytes=self._most_bytes
            )
        if not matches:
            message = say("no_matches", pattern=pattern)
            return ToolResult.no_results(message, speech=message)
        prefix = os.path.dirname(place.path) if name else place.path  # noqa: PTH120 - not resolved
        above = RootedPath(place.root, prefix, place.shown)
        shown = [
            {**each, "path": self._roots.display_path(above, each["path"])} for each in matches
        ]
        first, files = shown[0], len({each["path"] for each in shown})
        several = "some_matches" if files > 1 else "matches_in_one_file"
        key = "one_match" if len(shown) == 1 else "more_matches" if more else several
        speech = say(
            key, count=len(shown), files=files, name=Path(first["path"]).name, line=first["line"]
        )
        return ToolResult(result={"matches": shown, "more": more}, speech=speech)

    def _content(self, place: RootedPath) -> Content:
        handle = open_regular(place.root.descriptor, place.path)
        try:
            return read_content(handle, place.shown, self._most_bytes)
        finally:
            os.close(handle)


class OriginalFile:
    """A file before it is replaced; its content stays readable while this object lives."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.found = os.fstat(handle)
        weakref.finalize(self, os.close, handle)


class FileWriter:
    """Replaces one file, and registers how to undo that; `write` makes missing folders."""

    def __init__(self, place: RootedPath, ctx: ToolContext, most_bytes: int) -> None:
        head, _, self._name = place.path.rstrip("/").rpartition("/")
        if self._name in ("", ".", "..") or place.path.endswith("/"):
            raise NotRegularError("directory", place.path)
        self._root, self._head = place.root.descriptor, head
        self._place, self._ctx = place, ctx
        self._most_bytes = most_bytes
        self.before = self._open_original()

    def _open_original(self) -> OriginalFile | None:
        try:
            with opened_folder(self._root, self._head) as folder:
                status = os.stat(self._name, dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    raise NotRegularError(kind_of(status), self._place.path)
                return OriginalFile(open_regular(folder, self._name))
        except FileNotFoundError:
            return None

    def write(self, data: bytes, was: Content | None = None) -> None:
        """Write the file.

        Args:
            data: The new content.
            was: The content that the file must still have; by default any content is replaced.

        Raises:
            ToolError: The new or the old content is too big, or the file has changed meanwhile.
            OSError: The file cannot be written.
        """
        if len(data) > self._most_bytes:
            raise too_big(self._place.shown, len(data), self._most_bytes)
        if self.before is not None and self.before.found.st_size > self._most_bytes:
            # It could not be restored: that reads it into memory.
            raise too_big(self._place.shown, self.before.found.st_size, self._most_bytes)
        made = make_folders(self._root, self._head)
        try:
            with opened_folder(self._root, self._head) as folder:
                self._refuse_hidden_program_file(folder)
                if was is not None:
                    self._check(folder, was)
                mode = None if self.before is None else self.before.found.st_mode
                written = write_whole(folder, self._name, data, mode)
        except BaseException:
            remove_folders(self._root, made)
            raise
        self._ctx.undo(_restore, self._place, self._head, self._name, written, self.before, made)

    def _refuse_hidden_program_file(self, folder: int) -> None:
        """Raise `OutsideError` if a link leads to such a file, about which nobody was asked."""
        path, root = (Path(f"/proc/self/fd/{each}").readlink() for each in (folder, self._root))
        beneath = str(path).removeprefix(str(root))
        if _program_parts(beneath) and not _program_parts(self._place.path):
            raise OutsideError(self._place.path)

    def _check(self, folder: int, was: Content) -> None:
        status = os.stat(self._name, dir_fd=folder, follow_symlinks=False)
        if was.is_changing or not is_same(status, was.found):
            message = say("file_changed", path=self._place.shown)
            raise ToolError(message, retryable=True, reason_code="file_changed")


def _restore(
    place: RootedPath,
    head: str,
    name: str,
    written: os.stat_result,
    before: OriginalFile | None,
    made: list[str],
) -> None:
    """Restore the previous file, unless the file has been changed since."""
    root = place.root.descriptor
    with opened_folder(root, head) as folder:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not is_same(status, written):
            raise ToolError(say("file_changed", path=place.shown), reason_code="file_changed")
        if before is None:
            os.unlink(name, dir_fd=folder)
        else:
            size = before.found.st_size
            data = read_content(before.handle, place.shown, size).data
            write_whole(folder, name, data, before.found.st_mode)
    remove_folders(root, made)


@contextlib.contextmanager
def _folder_and_name(place: RootedPath) -> Iterator[tuple[int, str]]:
    """Open the folder to search, or the folder of the single file to search."""
    root = place.root.descriptor
    handle = open_beneath(root, place.path, _PATH_ONLY)
    try:
        status = os.fstat(handle)
    finally:
        os.close(handle)
    if stat.S_ISDIR(status.st_mode):
        with opened_folder(root, place.path) as folder:
            yield folder, ""
        return
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(kind_of(status), place.path)
    head, _, name = place.path.rpartition("/")
    with opened_folder(root, head) as folder:
        yield folder, name


def _first_names(folder: int, most: int, *, hidden: bool) -> tuple[list[str], int]:
    """Return the first `most` names of an open folder in order, and the number of all names.

    The names are not sorted as one list: with a million of them, that would hold up the event loop.
    """
    total = 0

    def names() -> Iterator[str]:
        nonlocal total
        with os.scandir(folder) as entries:
            for entry in entries:
                if hidden or not entry.name.startswith("."):
                    total += 1
                    yield entry.name

    return heapq.nsmallest(most, names()), total


def _entry(folder: int, name: str) -> Mapping[str, Any]:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:  # removed meanwhile
        return {"name": name, "kind": "gone"}
    kind = kind_of(status)
    entry: dict[str, Any] = {"name": name, "kind": kind}
    with contextlib.suppress(ValueError, OverflowError, OSError):  # a time after the year 9999
        changed = datetime.fromtimestamp(status.st_mtime, UTC)
        entry["changed"] = changed.isoformat(timespec="seconds")
    if kind == "file":
        entry["bytes"] = status.st_size
    return entry


def _has_lines(place: RootedPath, lines: int) -> str:
    if lines == 0:
        return say("file_is_empty", name=place.name)
    key = "file_has_one_line" if lines == 1 else "file_has_lines"
    return say(key, name=place.name, lines=lines)


def _match_line_ends(text: str, given: str) -> str:
    """Return `given` with the line endings of `text`."""
    if "\r\n" not in text or "\r\n" in given:
        return given
    return given.replace("\n", "\r\n")


def _encode(text: str, encoding: str, path: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        raise ToolError(
            say("wrong_encoding", path=path, encoding=encoding), reason_code="wrong_encoding"
        ) from None


def make_tools(settings: FilesSettings) -> Sequence[Tool[..., Any]]:
    """Return the tools, without opening anything before the first call."""
    files = FileTools(settings)
    searching = Tool(
        files.search_in_files,
        category="storage",
        effect="read",
        tags=["files"],
        timeout_seconds=settings.timeout,
    )
    reading = (files.read_file, files.list_directory, searching)
    return (*reading, files.write_file, files.edit_file) if settings.writable else reading


TOOLBOX = Toolbox(
    summary="Files beneath the folders that you name: read, write, edit, list, search.",
    settings=FilesSettings,
    make=make_tools,
    access=frozenset({"files"}),
)
