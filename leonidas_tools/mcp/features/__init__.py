"""What MCP servers ask of us: of the person, of a model, and where they may work."""

from leonidas_tools.mcp.features.client_features import ClientFeatures, ServerRequestHandler
from leonidas_tools.mcp.features.sampling import SamplingAnswer, SamplingModel, SamplingRequest

__all__ = [
    "ClientFeatures",
    "SamplingAnswer",
    "SamplingModel",
    "SamplingRequest",
    "ServerRequestHandler",
]
