"""One connection to an MCP server, its health check, and its reconnection."""
