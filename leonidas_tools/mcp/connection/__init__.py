"""One connection to an MCP server, its health, and how it is restored."""
