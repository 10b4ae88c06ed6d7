"""The tools as an MCP server, for any MCP client: over standard input and output, or HTTP.

Rules, limits, the loop guard, the cache and the result budget apply to every call, and are counted
for each connection.
"""

from leonidas_tools.mcp_server.app import MCPApp, mcp_app
from leonidas_tools.mcp_server.guard import HTTPAccess
from leonidas_tools.mcp_server.serving import serve_http, serve_stdio

__all__ = ["HTTPAccess", "MCPApp", "mcp_app", "serve_http", "serve_stdio"]
