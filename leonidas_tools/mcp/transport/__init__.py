"""Transports of messages to MCP servers: stdio, HTTP, TLS."""
