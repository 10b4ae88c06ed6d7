"""`leonidas console`: a web page that shows the tools."""

import asyncio
import os
import secrets
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leonidas_tools.cli.access import access_of_environment
from leonidas_tools.cli.generations import model_of
from leonidas_tools.cli.mcp.serve import (
    Hosts,
    Origins,
    TokenEnv,
    listen_address,
    serve_until_stopped,
)
from leonidas_tools.cli.places import Config, default_config
from leonidas_tools.cli.talking import gemini_agent, simulated_agent
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.console.talk import Agents

_PLACE = "127.0.0.1:8787"


def console(
    config: Config = None,
    http: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where the console listens.")
    ] = _PLACE,
    token_env: TokenEnv = None,
    allow_origin: Origins = None,
    allow_host: Hosts = None,
) -> None:
    """Serve a page that shows the tools of the settings: questions, calls, tasks, events, settings.

    On the page a person talks to an agent with these tools: to Gemini with GEMINI_API_KEY, without
    a key to the simulator, which confirms each input.

    It shows the calls of this process: `leonidas run --console` opens it during a conversation. The
    printed address has the token, which every user of the page needs.

    Example: leonidas console --http 8787
    """
    asyncio.run(
        serve_until_stopped(
            _serve(
                config or default_config(), http, token_env, allow_host or [], allow_origin or []
            )
        )
    )


async def _serve(
    config: Path, http: str, token_env: str | None, hosts: list[str], origins: list[str]
) -> None:
    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.console import serve_console

    place, token = listen_address(http), _token(token_env)
    tools = AdvancedToolProcessor(config=config)
    await serve_console(
        tools,
        token=token,
        host=place.host,
        port=place.port,
        hosts=hosts,
        origins=origins,
        agents=_agents(tools),
        on_listening=lambda address: _announce(address, None if token_env else token),
    )


def _agents(tools: "AdvancedToolProcessor") -> "Agents":
    """Return a function that opens an agent: Gemini if accessible, else simulated."""
    access = access_of_environment()
    if not access:
        return partial(simulated_agent, tools)
    model = model_of(None, vertex=access.vertex)
    return partial(gemini_agent, tools, model=model, profile=None, api_key=access.api_key)


@asynccontextmanager
async def console_beside(
    tools: "AdvancedToolProcessor", *, wanted: bool, agents: "Agents"
) -> "AsyncIterator[None]":
    """Serve the console of these tools on a free port of this machine, if it is wanted."""
    if not wanted:
        yield
        return
    from leonidas_tools.console import serve_console

    token, listens = secrets.token_urlsafe(32), asyncio.Event()

    def announce(address: str) -> None:
        _announce(address, token)
        listens.set()

    serving = asyncio.create_task(
        serve_console(tools, token=token, port=0, agents=agents, on_listening=announce),
        name="cli:console",
    )
    serving.add_done_callback(lambda _: listens.set())
    try:
        await listens.wait()
        if serving.done():
            serving.result()
        yield
    finally:
        serving.cancel()
        await asyncio.wait({serving})


def _token(variable: str | None) -> str:
    if variable is None:
        return secrets.token_urlsafe(32)
    token = os.environ.get(variable, "").strip()
    if not token:
        raise ConfigurationError(
            f"The environment variable {variable!r} is empty: put a token in it"
        )
    return token


def _announce(address: str, token: str | None) -> None:
    from leonidas_tools.cli import terminal

    # In the fragment, which a browser sends to no server.
    secret = "" if token is None else f"#token={token}"
    terminal.messages().print(f"The console is at {address}/{secret}", soft_wrap=True)
