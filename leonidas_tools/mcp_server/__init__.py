"""The tools as an MCP server, for any MCP client: over standard input and output, or HTTP.

Every call goes the way of all calls: rules, limits, the loop guard, the cache and the budget of
results hold for it, counted for each connection by itself.
"""

from leonidas_tools.mcp_server.app import MCPApp, mcp_app
from leonidas_tools.mcp_server.guard import HTTPAccess
from leonidas_tools.mcp_server.serving import serve_http, serve_stdio

__all__ = ["HTTPAccess", "MCPApp", "mcp_app", "serve_http", "serve_stdio"]
