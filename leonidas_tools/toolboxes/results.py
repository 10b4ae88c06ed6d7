"""A tool that reads the rest of a result that was too long."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any

from pydantic import Field

from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import StoreError, ToolError
from leonidas_tools.results.spill import Results
from leonidas_tools.results.texts import say
from leonidas_tools.tools.tool import Tool, tool

_MAX_CHARACTERS = 16_000
_CONTINUES = range(0x80, 0xC0)
"""Continuation bytes of a UTF-8 character, which has at most three of them."""
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@tool(category="system", effect="read", priority="critical", polling=True)
async def read_result(
    handle: str,
    ctx: ToolContext,
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Annotated[int, Field(ge=1, le=_MAX_CHARACTERS)] = 4000,
    pattern: str | None = None,
) -> dict[str, Any]:
    """Read more of a result that was too long, by the handle that came with it.

    Args:
        handle: The handle.
        offset: Where to begin, in bytes; `next_offset` of the answer is where to go on.
        limit: How much to read at most, in bytes.
        pattern: Only lines with this text in them, in capitals or not.
    """
    store, session = ctx.session.get(Results).store, ctx.session.id
    whole = pattern is not None
    try:
        piece = await store.read(
            handle, offset=offset, limit=None if whole else limit + 4, session=session
        )
    except StoreError as error:
        message = say("unknown_result", handle=handle)
        raise ToolError(message, status="not_found", reason_code="unknown_handle") from error
    if pattern is None:
        text, used = _text(piece.content, limit)
        shown: dict[str, Any] = {"text": text}
    else:
        # A result may have millions of lines.
        lines, used = await asyncio.to_thread(_lines, piece.content, pattern, limit)
        shown = {"lines": lines}
    end = offset + used
    return {
        **shown,
        "offset": offset,
        "next_offset": end if end < piece.size else None,
        "size": piece.size,
    }


def _text(content: bytes, limit: int) -> tuple[str, int]:
    """Return whole characters from the beginning, and their number of bytes."""
    end = min(limit, len(content))
    while end < len(content) and content[end] in _CONTINUES:
        end += 1
    return content[:end].decode("utf-8", "ignore"), end


def _lines(content: bytes, pattern: str, limit: int) -> tuple[list[dict[str, Any]], int]:
    """Return the matching lines, and the offset of the first line not returned."""
    found: list[dict[str, Any]] = []
    wanted, at, room = pattern.lower(), 0, limit
    for match in _LINE.finditer(content):  # one at a time: together they take far more memory
        line = match[0]
        text = line.decode("utf-8", "ignore").strip("\r\n")
        if wanted in text.lower():
            room -= len(line)
            if room < 0 and found:
                return found, at
            found.append({"offset": at, "line": text[:limit]})
        at += len(line)
    return found, at


TOOLS: tuple[Tool[..., Any], ...] = (read_result,)
