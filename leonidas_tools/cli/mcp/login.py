"""`leonidas mcp login` and `logout`: the login of a person at a server."""

import asyncio

from leonidas_tools.cli.mcp.options import Name, server_settings
from leonidas_tools.cli.places import Config


def login(name: Name, config: Config = None) -> None:
    """Log in to an MCP server with the browser and store the tokens for later sessions.

    Example: leonidas mcp login notes
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.mcp.login import log_in

    outcome = asyncio.run(log_in(name, server_settings(config, name), _open_page))
    terminal.say(f"{name}: {_WORDS[outcome]}")


def logout(name: Name, config: Config = None) -> None:
    """Remove the stored tokens of an MCP server, and revoke them if the server allows it.

    Example: leonidas mcp logout notes
    """
    from leonidas_tools.cli import terminal
    from leonidas_tools.mcp.login import log_out

    existed = asyncio.run(log_out(name, server_settings(config, name)))
    terminal.say(f"{name}: {'logged out' if existed else 'there was no login'}")


_WORDS = {
    "logged in": "logged in",
    "was logged in": "logged in already; to log in as another user, log out first",
    "not asked": "needs no login",
}


async def _open_page(url: str) -> None:
    import webbrowser

    from leonidas_tools.cli import terminal

    # Always shown: the browser may be on another machine.
    terminal.say(f"Log in with the browser: {url}", err=True)
    await asyncio.to_thread(webbrowser.open, url)
