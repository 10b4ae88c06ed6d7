"""MCP servers as tools: one owner task each."""
