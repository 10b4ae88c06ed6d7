"""Find lines in files: ripgrep finds the positions, and each line is read again beneath the root.

A program that walks a tree by paths can be led out of the tree if a folder is swapped for a link.
So the text that ripgrep reads is never returned: only the positions are used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leonidas_tools.errors import ToolError
from leonidas_tools.files.beneath import NotRegularError, open_regular
from leonidas_tools.results.texts import say
from leonidas_tools.toolboxes.files import walk
from leonidas_tools.toolboxes.files.content import read_content

_MAX_LINE_LENGTH = 300
_MAX_ERROR_BYTES = 8_192
_LINE_BYTES = 65_536
_TOTAL_BYTES = 64 << 20
_MAX_STATE_BYTES = 32 << 20
"""Memory of ripgrep for the states of an expression, in each thread; by default it is 1 GB."""
_PLACE = re.compile(rb"([^\0]*)\0(\d+)[:-]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """Parameters of a search.

    Args:
        pattern: The regular expression.
        glob: The glob pattern of the files to search; empty for all.
        ignore_case: Whether to ignore the case of letters.
        only: The single file to search; empty for all.
        most: The maximum number of lines to find.
    """

    pattern: str
    glob: str = ""
    ignore_case: bool = False
    only: str = ""
    most: int = 100

    def command(self) -> list[str]:
        """Return the command line that searches its working directory."""
        program = shutil.which("rg")
        if program is None:
            case = "yes" if self.ignore_case else ""
            return [sys.executable, "-I", walk.__file__, self.pattern, self.glob, case, self.only]
        options = ["--no-config", "--no-ignore", "--no-messages", "--color=never", "--no-heading"]
        options += [f"--max-filesize={walk.MAX_BYTES}", f"--dfa-size-limit={_MAX_STATE_BYTES}"]
        options += ["--line-number", "--with-filename", "--null", "--max-columns=1"]
        options += ["--ignore-case" if self.ignore_case else "--case-sensitive"]
        # The including glob also matches hidden files; the last matching glob decides.
        options += [f"--glob={self.glob}", "--glob=!.*"] if self.glob else []
        options += ["--glob=!*\n*"]  # the output would be indistinguishable from another path
        return [program, *options, "-e", self.pattern, "--", self.only or "./"]


async def search(folder: int, wanted: Search) -> tuple[list[tuple[str, int]], bool]:
    """Return the positions, each a path and a line number, and whether there are more.

    Raises:
        ToolError: The pattern is not a regular expression, or the glob is invalid.
    """
    if not _is_valid_argument(wanted.glob):
        raise _bad_glob(wanted.glob)
    if not _is_valid_argument(wanted.pattern):
        raise _bad_pattern(wanted.pattern, "it has characters that no text can contain")
    if shutil.which("rg") is None:  # else ripgrep decides, whose syntax differs
        try:
            await asyncio.to_thread(re.compile, wanted.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise _bad_pattern(wanted.pattern, str(error)) from None
    process = await asyncio.create_subprocess_exec(
        *wanted.command(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=f"/proc/self/fd/{folder}",
        pass_fds=(folder,),
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        limit=_LINE_BYTES,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read(_MAX_ERROR_BYTES))
    try:
        places = await _places(process.stdout, wanted.most + 1, wanted.only)
        if len(places) <= wanted.most:
            said = (await errors).decode(errors="replace")
            if await process.wait() not in (0, 1) and not places and said:
                raise _build_error(wanted, said.strip().splitlines())
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        errors.cancel()
        # Wait until the process and its pipes have ended before the folder is closed.
        await asyncio.shield(process.communicate())
    return sorted(places[: wanted.most]), len(places) > wanted.most


async def lines_at(
    folder: int, places: Sequence[tuple[str, int]], *, decode: str, most_bytes: int
) -> list[Mapping[str, Any]]:
    """Return the lines at the positions, read beneath the folder; skip missing lines."""
    found: list[Mapping[str, Any]] = []
    by_path: dict[str, list[int]] = {}
    for path, number in places:
        by_path.setdefault(path, []).append(number)
    left = _TOTAL_BYTES
    for path, numbers in by_path.items():
        lines = _lines(folder, path, decode, most_bytes) if left > 0 else None
        left -= sum(map(len, lines or ())) + len(lines or ())
        await asyncio.sleep(0)  # a file may have millions of lines
        for number in numbers:
            if lines is None:  # too big: only the position is returned
                found.append({"path": path, "line": number})
            elif number <= len(lines):
                found.append({"path": path, "line": number, "text": _shorten(lines[number - 1])})
    return found


def _lines(folder: int, path: str, decode: str, most_bytes: int) -> list[str] | None:
    """Return the lines of a file; no lines if it cannot be read, `None` if it is too big."""
    try:
        handle = open_regular(folder, path)
    except (NotRegularError, OSError):
        return []
    try:
        content = read_content(handle, path, most_bytes)
        return content.text(path, None, decode)[0].split("\n")
    except ToolError as error:
        return None if error.reason_code == "file_too_big" else []
    finally:
        os.close(handle)


async def _places(stream: asyncio.StreamReader, most: int, only: str) -> list[tuple[str, int]]:
    places: list[tuple[str, int]] = []
    while len(places) < most:
        try:
            line = await stream.readline()
        except ValueError:  # longer than any position
            continue
        if not line:
            break
        if match := _PLACE.match(line):
            # The name of a single file may have a line break.
            path = only or os.fsdecode(match[1]).removeprefix("./")
            places.append((path, int(match[2])))
    return places


def _is_valid_argument(word: str) -> bool:
    """Return whether the system can pass a word to a program."""
    try:
        return b"\0" not in os.fsencode(word)
    except UnicodeEncodeError:
        return False


def _build_error(wanted: Search, lines: Sequence[str]) -> ToolError:
    """Return the error for the messages of ripgrep: a bad glob or a bad pattern."""
    if "parsing glob" in lines[-1]:
        return _bad_glob(wanted.glob)
    reasons = [line for line in lines if line.startswith(("error: ", "the literal"))]
    reason = (reasons or lines[:1])[0].removeprefix("error: ")
    return _bad_pattern(wanted.pattern, reason.rstrip("."))


def _bad_glob(glob: str) -> ToolError:
    message = say("bad_glob", glob=glob)
    return ToolError(message, status="invalid_argument", reason_code="bad_glob")


def _bad_pattern(pattern: str, reason: str) -> ToolError:
    message = say("bad_pattern", pattern=pattern, reason=reason)
    return ToolError(message, status="invalid_argument", reason_code="bad_pattern")


def _shorten(line: str) -> str:
    line = line.strip("\r")
    return line if len(line) <= _MAX_LINE_LENGTH else line[: _MAX_LINE_LENGTH - 1] + "…"
