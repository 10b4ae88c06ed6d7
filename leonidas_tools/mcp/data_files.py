"""Paths of the files of an MCP server: its tokens, its pins."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from leonidas_tools.files.data_directory import data_directory

if TYPE_CHECKING:
    from pathlib import Path

_SHOWN_CHARACTERS = 40


def data_file(server: str, kind: str) -> Path:
    """Return the path of a server's file in the data directory; its folder may be missing.

    Example:
        >>> data_file("Notes & more", "tokens").name
        'notes-more-9786560a.tokens.json'
    """
    return data_directory() / "mcp" / f"{_stem(server)}.{kind}.json"


def forget(server: str) -> None:
    """Delete all stored data of a server."""
    for file in (data_directory() / "mcp").glob(f"{_stem(server)}.*"):
        file.unlink(missing_ok=True)


def _stem(server: str) -> str:
    legible = re.sub(r"[^a-z0-9]+", "-", server.lower()).strip("-")[:_SHOWN_CHARACTERS]
    digest = hashlib.sha256(server.encode()).hexdigest()[:8]
    return f"{legible or 'server'}-{digest}"
