"""What a server called its tools when it last listed them, for where it cannot be asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from leonidas_tools.files.private import PrivateFile
from leonidas_tools.mcp.places import data_file
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = visible_logger(__name__)


class ListedNames:
    """The names that one server has listed, kept from one process to the next.

    Args:
        server: The server's name.

    Example:
        >>> ListedNames("notes").keep(["add", "search"])
        >>> ListedNames("notes").names()
        ['add', 'search']
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._file = PrivateFile(data_file(server, "listing"))
        self._kept: list[str] | None = None

    def keep(self, names: Sequence[str]) -> None:
        """Keeps the names, as well as the disk allows. It blocks.

        Args:
            names: What the server calls its tools, in its order.
        """
        if self._kept == list(names):
            return
        try:
            self._file.write(json.dumps({"tools": list(names)}))
            self._kept = list(names)
        except OSError as error:
            logger.debug("The listing of the MCP server %r is not kept: %s", self._server, error)

    def names(self) -> list[str]:
        """The names, as far as they are known."""
        try:
            return [str(name) for name in json.loads(self._file.read() or "{}").get("tools", ())]
        except (OSError, ValueError, AttributeError, TypeError):
            return []  # they only spare a surprise: where they are gone, nothing is lost
