"""What all servers may ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Asks:
    """What servers may ask of us, besides what their settings say."""

    def client_options(self) -> dict[str, Any]:
        """The options of an MCP client that answer what its server asks."""
        return {}
