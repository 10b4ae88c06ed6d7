"""Client features (elicitation), resources and prompts of MCP."""
