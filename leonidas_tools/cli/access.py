"""The access to a real server, by environment variables."""

import os
from dataclasses import dataclass

KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_VERTEX_VARIABLES = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """The access to a real server; false without access."""

    api_key: str | None
    vertex: bool  # whether the server is Vertex AI

    def __bool__(self) -> bool:
        return self.vertex or self.api_key is not None


def access_of_environment() -> Access:
    """Return the access to a real server that the environment variables set."""
    key = next(filter(None, map(os.environ.get, KEY_VARIABLES)), None)
    switches = (os.environ.get(name, "").lower() for name in _VERTEX_VARIABLES)
    vertex = any(switch in ("true", "1") for switch in switches)
    return Access(api_key=None if vertex else key, vertex=vertex)
