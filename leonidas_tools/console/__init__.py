"""The console: the tools over HTTP, for a person at a screen and for programs."""

from leonidas_tools.console.app import ConsoleApp, console_app, serve_console
from leonidas_tools.console.preferences import preferences_app
from leonidas_tools.mcp_server import HTTPAccess

__all__ = ["ConsoleApp", "HTTPAccess", "console_app", "preferences_app", "serve_console"]
