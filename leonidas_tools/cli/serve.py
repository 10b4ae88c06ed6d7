"""`leonidas serve`: conversations over WebSockets, and the tokens that open them."""

import asyncio
import importlib.util
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from leonidas_tools.cli import options
from leonidas_tools.cli.mcp.serve import (
    Hosts,
    ListenAddress,
    Origins,
    listen_address,
    serve_until_stopped,
)
from leonidas_tools.cli.places import Config, configs_for, default_config, find_scenario
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.live.gemini import GeminiLiveProcessor

_PLACE = "127.0.0.1:8788"
_SECRET = "LEONIDAS_GATEWAY_SECRET"  # noqa: S105 - the name of a variable
_MAX_WORKERS = 64

SecretEnv: TypeAlias = Annotated[
    str, typer.Option(metavar="NAME", help="The environment variable with the secret.")
]
SecretFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The file with the secret instead.", readable=False),
]


def commands() -> typer.Typer:
    """Return the commands about the gateway."""
    app = typer.Typer()
    app.callback(invoke_without_command=True)(serve)
    app.command("token")(token)
    return app


def serve(  # noqa: PLR0913, PLR0917 - the options of a command
    context: typer.Context,
    config: Config = None,
    http: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where the gateway listens.")
    ] = _PLACE,
    secret_env: SecretEnv = _SECRET,
    secret_file: SecretFile = None,
    model: options.Model = None,
    profile: options.Profile = None,
    scenario: Annotated[
        str | None,
        typer.Option(help="Let the simulator play this in each conversation; no key is needed."),
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0.0, help="Seconds that conversations have to end on shutdown.")
    ] = 60.0,
    conversations: Annotated[
        int, typer.Option(min=1, metavar="N", help="The most conversations at once of a process.")
    ] = 200,
    conversations_per_user: Annotated[
        int, typer.Option(min=1, metavar="N", help="The most conversations at once of one user.")
    ] = 2,
    starts_per_user_minute: Annotated[
        int, typer.Option(min=1, metavar="N", help="The most that one user may start in a minute.")
    ] = 20,
    allow_origin: Origins = None,
    allow_host: Hosts = None,
    workers: Annotated[
        int, typer.Option(min=1, max=_MAX_WORKERS, help="The number of processes.")
    ] = 1,
    worker: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve conversations with the tools of the settings over WebSockets, at /conversation.

    Each WebSocket is a separate conversation. Users sign in with tokens, signed with the secret
    in LEONIDAS_GATEWAY_SECRET. SIGTERM lets conversations end at a quiet moment; a second one does
    not wait. With --workers, the limits of a user apply to all
    processes if the settings have a store.

    Example: leonidas serve --http 8788
    """
    if context.invoked_subcommand is not None:
        return
    _check_packages("numpy", "soxr", "jwt")
    secret, place = _secret(secret_env, secret_file), listen_address(http)
    pages = {"hosts": allow_host or [], "origins": allow_origin or []}
    limits = {
        "conversations": conversations,
        "conversations_per_user": conversations_per_user,
        "starts_per_user_minute": starts_per_user_minute,
        "grace_seconds": grace,
    }
    if workers > 1 and worker is None:
        asyncio.run(serve_until_stopped(_serve_by_workers(place, workers)))
        return

    async def run() -> None:
        from leonidas_tools import AdvancedToolProcessor

        async with AsyncExitStack() as stack:
            if scenario is None:
                tools = AdvancedToolProcessor(config=config or default_config())
                live = _live(tools, model, profile)
            else:
                file = find_scenario(scenario)
                tools = AdvancedToolProcessor(config=config or configs_for([file])[0])
                live = await _start_simulator(stack, tools, file)
            await _serve(tools, live, secret, place, limits, pages, worker)

    if worker is None:
        asyncio.run(serve_until_stopped(run()))
    else:
        from leonidas_tools.gateway.workers import while_parent_lives

        asyncio.run(serve_until_stopped(while_parent_lives(run())))


def token(
    user: Annotated[str, typer.Option(help="Who signs in with it.")],
    seconds: Annotated[float, typer.Option(min=1.0, help="How long it is valid.")] = 3600.0,
    metrics: Annotated[bool, typer.Option("--metrics", help="Only for /metrics.")] = False,
    secret_env: SecretEnv = _SECRET,
    secret_file: SecretFile = None,
) -> None:
    """Write a token that signs a user in at the gateway.

    Example: leonidas serve token --user ana
    """
    _check_packages("jwt")
    from leonidas_tools.gateway.tokens import AUDIENCE, METRICS_AUDIENCE, make_token

    audience = METRICS_AUDIENCE if metrics else AUDIENCE
    secret = _secret(secret_env, secret_file)
    typer.echo(make_token(secret, user, seconds=seconds, audience=audience))


def _check_packages(*packages: str) -> None:
    """Raise an error if a package of the extra `serve` is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ConfigurationError(
                f"`leonidas serve` needs packages that are not installed (No module named "
                f"{package!r}): pip install 'leonidas-tools[serve]'"
            )


def _secret(variable: str, file: Path | None) -> str:
    """Return the secret."""
    if file is not None:
        from leonidas_tools.files.reading import read_file, why_unreadable

        try:
            return read_file(file).decode().strip()
        except OSError as error:
            raise ConfigurationError(why_unreadable(error), file=file) from None
        except UnicodeDecodeError:
            raise ConfigurationError("is not UTF-8 text", file=file) from None
    secret = os.environ.get(variable, "").strip()
    if not secret:
        raise ConfigurationError(
            f"The environment variable {variable!r} is empty: put the secret of the gateway in it, "
            "such as the output of `openssl rand -hex 32`, or give --secret-file"
        )
    return secret


def _live(
    tools: "AdvancedToolProcessor", model: str | None, profile: str | None
) -> "GeminiLiveProcessor":
    from leonidas_tools.cli.access import KEY_VARIABLES, access_of_environment
    from leonidas_tools.cli.generations import model_of
    from leonidas_tools.cli.with_gemini import gemini_model

    access = access_of_environment()
    if not access:
        raise ConfigurationError(
            f"There is no key: set {KEY_VARIABLES[0]}, or let the simulator play with --scenario"
        )
    name = model or model_of(profile, vertex=access.vertex)
    return gemini_model(tools, model=name, profile=profile, api_key=access.api_key)


async def _start_simulator(
    stack: AsyncExitStack, tools: "AdvancedToolProcessor", scenario: Path
) -> "GeminiLiveProcessor":
    """Start the simulator, and the MCP servers whose tools the scenario may call at once."""
    from leonidas_tools.cli.generations import generation_for
    from leonidas_tools.cli.starting import wait_for_servers
    from leonidas_tools.cli.with_simulator import simulated_model, telling_progress
    from leonidas_tools.simulator import LiveSimulator, Scenario

    simulator = LiveSimulator(Scenario.load(scenario), strict=False)
    stack.callback(simulator.stop)
    simulator.start()
    await stack.enter_async_context(tools)
    await stack.enter_async_context(telling_progress(tools, simulator))
    await wait_for_servers(tools.runtime)
    return simulated_model(tools, simulator, generation_for(simulator.scenario, None))


async def _serve_by_workers(place: ListenAddress, workers: int) -> None:
    """Run this command again in several processes, which serve one port."""
    from leonidas_tools.gateway.workers import run_workers
    from leonidas_tools.mcp_server.serving import reserved

    # `-P`: nothing is imported from the working directory, where a model may write.
    command = [sys.executable, "-P", "-m", "leonidas_tools", *sys.argv[1:], "--worker"]
    with reserved(place.host, place.port) as port:
        await run_workers([*command, str(port)], count=workers)


def _announce(address: str) -> None:
    from leonidas_tools.cli import terminal
    from leonidas_tools.gateway.app import CONVERSATION

    message = f"Serving conversations at {address.replace('http', 'ws', 1)}{CONVERSATION}"
    terminal.messages().print(message, soft_wrap=True)


async def _serve(  # noqa: PLR0913, PLR0917 - the options of the command
    tools: "AdvancedToolProcessor",
    live: "GeminiLiveProcessor",
    secret: str,
    place: ListenAddress,
    limits: dict[str, Any],
    pages: dict[str, list[str]],
    worker: int | None,
) -> None:
    from leonidas_tools.gateway import GatewayLimits, serve_gateway
    from leonidas_tools.mcp_server.serving import listening

    port = place.port if worker is None else worker
    with listening(place.host, port, shared=worker is not None) as listener:
        await serve_gateway(
            tools,
            live,
            secret=secret,
            host=place.host,
            limits=GatewayLimits(**limits),
            listener=listener,
            on_listening=_announce,
            hosts=pages["hosts"],
            origins=pages["origins"],
        )
