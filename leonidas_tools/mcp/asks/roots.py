"""Where a server is told it may work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import mcp_types

from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp.client.session import ClientRequestContext


class Roots:
    """Tells a server its directories.

    Args:
        directories: Which they are now.
    """

    def __init__(self, directories: Callable[[], Iterable[str]]) -> None:
        self._directories = directories

    async def __call__(self, _: ClientRequestContext) -> mcp_types.ListRootsResult:
        """Those that exist; one may have gone since."""
        directories = [path for each in self._directories() if (path := _path(each)).is_dir()]
        return mcp_types.ListRootsResult(
            roots=[
                mcp_types.Root.model_validate({"uri": path.as_uri(), "name": path.name or "/"})
                for path in directories
            ]
        )


def checked(directories: Iterable[str]) -> None:
    """Looks whether directories exist.

    Raises:
        ConfigurationError: One does not.

    Example:
        >>> checked(["/"])
        >>> checked(["/nowhere"])
        Traceback (most recent call last):
        ...
        leonidas_tools.errors.ConfigurationError: the root '/nowhere' is no directory: make it, ...
    """
    for each in directories:
        if not _path(each).is_dir():
            raise ConfigurationError(
                f"the root {each!r} is no directory: make it, or take it out of 'roots'"
            )


def _path(directory: str) -> Path:
    return Path(directory).expanduser().resolve()
