"""`leonidas mcp serve`: the tools for any MCP client."""

import asyncio
import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer

from leonidas_tools.cli.places import Config, default_config
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Coroutine

_HOST = "127.0.0.1"
_MAX_PORT = 65535


Http: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:]PORT",
        help="Serve over HTTP at /mcp; else over standard input and output.",
    ),
]
TokenEnv: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The environment variable with the token that clients must send."
    ),
]
Origins: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="ORIGIN", help="A web origin that may use it; may be repeated."),
]
Hosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST", help="A host name that clients use; may be repeated."),
]
Patterns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Offer these tools only, such as get_*; may be repeated."),
]


def serve(
    config: Config = None,
    http: Http = None,
    token_env: TokenEnv = None,
    allow_origin: Origins = None,
    allow_host: Hosts = None,
    tool: Patterns = None,
) -> None:
    """Serve the tools of the settings to MCP clients, under all rules and limits of the settings.

    Without --http, the one client is the program that starts this command: put
    {"command": "leonidas", "args": ["mcp", "serve"]} into its settings. A tool that requires
    approval is asked about through the client, and denied if the client cannot ask.

    Clients on other machines need a token; without --token-env one is created and shown once.

    Example: leonidas mcp serve --http 8000
    """
    config, patterns = config or default_config(), tool or []
    if http is None:
        for option, value in (
            ("--token-env", token_env),
            ("--allow-origin", allow_origin),
            ("--allow-host", allow_host),
        ):
            if value:
                raise ConfigurationError(f"{option!r} needs HTTP: add --http PORT, or leave it out")
        _over_stdio(config, patterns)
        return
    address = listen_address(http)
    access = {"hosts": allow_host or [], "origins": allow_origin or []}
    asyncio.run(serve_until_stopped(_over_http(config, address, token_env, patterns, access)))


class ListenAddress(NamedTuple):
    """Address of a server."""

    host: str
    port: int


def _over_stdio(config: Path, patterns: list[str]) -> None:
    from leonidas_tools.mcp_server.stdio import claim_pipes

    # Before the settings are loaded: output of their modules is no message of the protocol.
    with claim_pipes() as pipes:
        from leonidas_tools import ToolRuntime
        from leonidas_tools.mcp_server import serve_stdio

        async def run() -> None:
            await serve_stdio(ToolRuntime(config=config), patterns=patterns, pipes=pipes)

        asyncio.run(serve_until_stopped(run()))


async def _over_http(
    config: Path,
    address: ListenAddress,
    token_env: str | None,
    patterns: list[str],
    access: dict[str, list[str]],
) -> None:
    from leonidas_tools import ToolRuntime
    from leonidas_tools.cli import terminal
    from leonidas_tools.mcp_server import serve_http
    from leonidas_tools.mcp_server.guard import is_loopback

    console = terminal.messages()
    token = None if token_env is None else os.environ.get(token_env, "").strip()
    if token == "":
        raise ConfigurationError(
            f"The environment variable {token_env!r} is empty: put a token in it"
        )
    if token is None and not (is_loopback(address.host) and not access["hosts"]):
        token = secrets.token_urlsafe(32)
        console.print(f"Clients must send: Authorization: Bearer {token}", soft_wrap=True)
    await serve_http(
        ToolRuntime(config=config),
        host=address.host,
        port=address.port,
        token=token,
        patterns=patterns,
        on_listening=lambda address: console.print(f"Serving MCP at {address}"),
        **access,
    )


def listen_address(text: str) -> ListenAddress:
    """Return the host and port that an option names."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or _HOST
    if not port.isdecimal() or int(port) > _MAX_PORT:
        raise ConfigurationError(f"{text!r} is not [HOST:]PORT: write --http 8000, for example")
    return ListenAddress(host, int(port))


async def serve_until_stopped(serving: "Coroutine[Any, Any, None]") -> None:
    """Serve until the server ends or a signal stops it; a second signal does not wait."""
    task = asyncio.ensure_future(serving)
    loop = asyncio.get_running_loop()
    told: list[signal.Signals] = []

    def stop(by: signal.Signals) -> None:
        told.append(by)
        task.cancel()

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop, each)
    with suppress(asyncio.CancelledError):
        await task
    if signal.SIGINT in told:
        raise typer.Exit(128 + signal.SIGINT)
    if not told and task.cancelled():
        raise asyncio.CancelledError
