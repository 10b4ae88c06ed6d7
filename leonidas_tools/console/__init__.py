"""The HTTP face of the tools."""

from leonidas_tools.console.preferences import preferences_app
from leonidas_tools.mcp_server import HTTPAccess

__all__ = ["HTTPAccess", "preferences_app"]
