"""The tools of MCP servers, with one owner task per server."""
