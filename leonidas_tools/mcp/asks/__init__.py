"""What MCP servers ask of us: of the person, of a model, and where they may work."""

from leonidas_tools.mcp.asks.asks import Asks

__all__ = ["Asks"]
