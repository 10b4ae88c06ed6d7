"""`leonidas worker`: run the calls of other processes that Temporal hands out."""

import asyncio
import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leonidas_tools.cli.mcp.serve import serve_until_stopped
from leonidas_tools.cli.places import Config, default_config
from leonidas_tools.errors import ConfigurationError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_CALLS = 1000


def worker(
    config: Config = None,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the Temporal server is.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="The namespace of the server.")
    ] = None,
    task_queue: Annotated[
        str | None, typer.Option(metavar="NAME", help="The task queue that the calls come from.")
    ] = None,
    calls: Annotated[
        int, typer.Option(min=1, max=_MAX_CALLS, help="The maximum number of calls at once.")
    ] = 8,
    grace: Annotated[
        float, typer.Option(min=0.0, help="Seconds that calls have to end on shutdown.")
    ] = 30.0,
) -> None:
    """Run the calls of a Temporal task queue with the tools of the settings.

    Policies and approvals run in the process that made the call: a worker only runs the tool.
    Without options, `temporal` in the settings names the server, else the variables and
    the file of the Temporal command line, such as TEMPORAL_ADDRESS. SIGTERM lets calls end first.

    Example: leonidas worker --address 127.0.0.1:7233
    """
    if importlib.util.find_spec("temporalio") is None:
        raise ConfigurationError(
            "`leonidas worker` needs Temporal's SDK: pip install 'leonidas-tools[temporal]'"
        )
    options = {"address": address, "namespace": namespace, "task_queue": task_queue}
    given = {name: value for name, value in options.items() if value is not None}
    file = config or default_config()
    asyncio.run(serve_until_stopped(_serve(str(file), given, calls, grace)))


async def _serve(config: str, given: "Mapping[str, Any]", calls: int, grace: float) -> None:
    from leonidas_tools import ToolRuntime
    from leonidas_tools.cli import terminal
    from leonidas_tools.engines.temporal import connect
    from leonidas_tools.engines.temporal_worker import temporal_worker

    async with ToolRuntime(config=config) as runtime:
        place = replace(runtime.settings.current.temporal.place, **given)
        try:
            client = await connect(place)
        except RetryableError as error:
            raise ConfigurationError(str(error.message)) from None
        serving = temporal_worker(
            runtime, client, task_queue=place.task_queue, calls=calls, grace_seconds=grace
        )
        async with serving:
            at = client.service_client.config.target_host
            terminal.say(f"Running calls of the task queue {place.task_queue!r} at {at}", err=True)
            await asyncio.Event().wait()
