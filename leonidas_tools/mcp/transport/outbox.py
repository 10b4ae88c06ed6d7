"""The messages to a server, in the form the client library writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.shared.message import SessionMessage


class Outbox:
    """Messages written as they are sent, with no task between: what is written holds no caller.

    Args:
        write: Takes a line, and never waits.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write

    async def send(self, item: SessionMessage, /) -> None:
        """Writes a message."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._write(text.encode() + b"\n")

    async def aclose(self) -> None:
        """Does nothing: the pipe is closed with the process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
