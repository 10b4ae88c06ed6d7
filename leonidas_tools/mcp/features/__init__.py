"""Client features for MCP servers: elicitation, sampling, roots; and resources, prompts."""

from leonidas_tools.mcp.features.client_features import ClientFeatures, ServerRequestHandler
from leonidas_tools.mcp.features.sampling import SamplingAnswer, SamplingModel, SamplingRequest

__all__ = [
    "ClientFeatures",
    "SamplingAnswer",
    "SamplingModel",
    "SamplingRequest",
    "ServerRequestHandler",
]
