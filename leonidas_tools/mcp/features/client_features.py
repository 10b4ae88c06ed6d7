"""Client features for a server, if its settings allow them: elicitation, sampling, roots, logs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leonidas_tools.mcp.features.ongoing_calls import OngoingCalls
from leonidas_tools.mcp.features.sampling import GeminiSampling, SamplingModel

if TYPE_CHECKING:
    from mcp.client.client import Client

    from leonidas_tools.settings.models import MCPServerSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientFeatures:
    """Answers the requests of servers, if their settings allow these requests.

    Args:
        sampling: The model for sampling requests; by default google-genai with its own key.
    """

    sampling: SamplingModel | None = None

    def of(self, name: str, settings: MCPServerSettings) -> ServerRequestHandler:
        """Return the request handler of one server."""
        return ServerRequestHandler(name, settings, self.sampling or GeminiSampling())


class ServerRequestHandler:
    """Answers the requests of one server.

    Args:
        name: The server's name.
        settings: The server's settings, which allow requests.
        sampling: The model for sampling requests.
    """

    def __init__(self, name: str, settings: MCPServerSettings, sampling: SamplingModel) -> None:
        self.calls = OngoingCalls()
        """The running calls of the server."""
        self._settings = settings
        self._client: Client | None = None
        self._notifying: set[asyncio.Task[None]] = set()
        self._name = name
        self._sampling = sampling

    def check(self) -> None:
        """Check that the roots in the settings exist.

        Raises:
            ConfigurationError: A root is not an existing directory.
        """
        from leonidas_tools.mcp.features.roots import checked

        checked(self._settings.roots)

    async def opened(self, client: Client) -> None:
        """Request log messages of the server, at the level of the settings."""
        from leonidas_tools.mcp.features.logs import ask_for_logs

        self._client = client
        await ask_for_logs(client, self._settings.log_level)

    def closed(self) -> None:
        """Withdraw the server's questions: the connection is lost, and no answer would arrive."""
        self._client = None
        self.calls.close()

    def apply(self, settings: MCPServerSettings) -> None:
        """Apply settings that need no new connection: the roots."""
        from leonidas_tools.mcp.features.roots import tell_change

        before, self._settings = self._settings, settings
        if before.roots != settings.roots and self._client is not None:
            task = asyncio.create_task(tell_change(self._client, settings.roots))
            self._notifying.add(task)
            task.add_done_callback(self._notifying.discard)

    def client_options(self) -> dict[str, Any]:
        """Return the client options with the callbacks of the allowed features."""
        from leonidas_tools.mcp.features.elicitation import Elicitation
        from leonidas_tools.mcp.features.logs import ServerLog
        from leonidas_tools.mcp.features.roots import ServerRoots
        from leonidas_tools.mcp.features.sampling_requests import SamplingRequests
        from leonidas_tools.mcp.trust.pins import identity_of
        from leonidas_tools.redaction import KnownSecrets

        name, settings = self._name, self._settings
        secrets = KnownSecrets(settings.secrets())
        options: dict[str, Any] = {}
        if settings.elicitation:
            options["elicitation_callback"] = Elicitation(name, self.calls, secrets)
        if settings.sampling.enabled:
            options["sampling_callback"] = SamplingRequests(
                name, identity_of(settings), settings.sampling, self._sampling, self.calls, secrets
            )
        if settings.roots:
            options["list_roots_callback"] = ServerRoots(lambda: self._settings.roots)
        if settings.log_level != "off":
            options["logging_callback"] = ServerLog(name, settings)
            options["log_level"] = settings.log_level
        return options
