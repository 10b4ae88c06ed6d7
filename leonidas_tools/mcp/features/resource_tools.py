"""Resources and prompts of a server as tools."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.mcp.features import prompts, resources

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    import mcp_types
    from mcp.client.client import Client

    from leonidas_tools.settings.models import MCPServerSettings

    Answer: TypeAlias = Callable[[Client, Mapping[str, Any]], Awaitable[mcp_types.CallToolResult]]

_SEPARATOR = "__"


class ResourceTools:
    """Tools that list and read the resources of a server, and its prompts, where that is wanted.

    They are listed beside its own tools, with its name before theirs.

    Args:
        server: The server's name.
        settings: What is wanted of it.
    """

    def __init__(self, server: str, settings: MCPServerSettings) -> None:
        self.settings = settings
        self._server = server

    def tools(self, capabilities: mcp_types.ServerCapabilities) -> list[mcp_types.Tool]:
        """Return the tools for what the server has."""
        found: list[mcp_types.Tool] = []
        if self.settings.resources and capabilities.resources is not None:
            found += resources.resource_tools(self._server)
        if self.settings.prompts and capabilities.prompts is not None:
            found += prompts.prompt_tools(self._server)
        return [tool.model_copy(update={"name": self._before + tool.name}) for tool in found]

    def request(
        self, client: Client, tool: str, arguments: Mapping[str, Any]
    ) -> Coroutine[Any, Any, mcp_types.CallToolResult] | None:
        """Return the request that a call of one of these tools makes; `None` for other tools."""
        answer = self._answers().get(tool)
        return None if answer is None else _run(partial(answer, client, arguments))

    @property
    def _before(self) -> str:
        # With a prefix set, every tool gets it anyhow.
        return "" if self.settings.prefix else self._server + _SEPARATOR

    def _answers(self) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        if self.settings.resources:
            answers[self._before + resources.LIST] = resources.listed_resources
            answers[self._before + resources.READ] = resources.read_resource
        if self.settings.prompts:
            answers[self._before + prompts.LIST] = prompts.listed_prompts
            answers[self._before + prompts.GET] = prompts.got_prompt
        return answers


async def _run(answer: Callable[[], Awaitable[mcp_types.CallToolResult]]) -> Any:
    return await answer()
