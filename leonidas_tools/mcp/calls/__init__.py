"""Calls of MCP tools and their results."""
