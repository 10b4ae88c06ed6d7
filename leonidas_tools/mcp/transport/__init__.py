"""How messages reach an MCP server: stdio, HTTP, TLS."""
