"""The roots of a server: the directories in which it may work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import mcp_types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcp.client.client import Client
    from mcp.client.session import ClientRequestContext


logger = visible_logger(__name__)


class ServerRoots:
    """Answers a server's requests for its roots."""

    def __init__(self, directories: Callable[[], Iterable[str]]) -> None:
        self._directories = directories

    async def __call__(self, _: ClientRequestContext) -> mcp_types.ListRootsResult:
        """Return the roots that still exist."""
        directories = [path for each in self._directories() if (path := _path(each)).is_dir()]
        return mcp_types.ListRootsResult(
            roots=[
                mcp_types.Root.model_validate({"uri": path.as_uri(), "name": path.name or "/"})
                for path in directories
            ]
        )


async def tell_change(client: Client, directories: Sequence[str]) -> None:
    """Notify a server that its roots have changed; newer servers request them each time."""
    try:
        checked(directories)
    except ConfigurationError as error:
        logger.warning("In the settings of an MCP server, %s", error)
    if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return
    try:
        await client.session.send_notification(mcp_types.RootsListChangedNotification())
    except MCPError as error:
        logger.debug("The roots were not announced to a server: error %s", error.code)


def checked(directories: Iterable[str]) -> None:
    """Check that directories exist.

    Raises:
        ConfigurationError: A directory does not exist.

    Example:
        >>> checked(["/"])
    """
    for each in directories:
        if not _path(each).is_dir():
            raise ConfigurationError(
                f"the root {each!r} is not a directory: create it, or remove it from 'roots'"
            )


def _path(directory: str) -> Path:
    return Path(directory).expanduser().resolve()
