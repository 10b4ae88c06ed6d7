"""What MCP servers ask of us: of the person, of a model, and where they may work."""

from leonidas_tools.mcp.features.asks import Asks, ServerAsks
from leonidas_tools.mcp.features.sampling import SamplingAnswer, SamplingModel, SamplingRequest

__all__ = ["Asks", "SamplingAnswer", "SamplingModel", "SamplingRequest", "ServerAsks"]
