"""OAuth tokens for MCP servers that require one."""

from leonidas_tools.mcp.auth.client import OpenPage, client_auth, token_file
from leonidas_tools.mcp.auth.failures import LoginRequiredError, NotAuthorizedError, reason

__all__ = [
    "LoginRequiredError",
    "NotAuthorizedError",
    "OpenPage",
    "client_auth",
    "reason",
    "token_file",
]
