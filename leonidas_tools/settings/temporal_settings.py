"""Settings of the Temporal server whose workers run tools."""

from typing import Annotated

from pydantic import BeforeValidator

from leonidas_tools.engines.base import TemporalConnection
from leonidas_tools.settings.fields import Duration, Name, refuse_empty
from leonidas_tools.settings.model import SettingsModel


class TemporalSettings(SettingsModel):
    """The Temporal server of the tools with `runs_on: temporal`.

    Omitted settings come from the variables and the file of the Temporal command line, such as
    `TEMPORAL_ADDRESS` and `TEMPORAL_API_KEY`.

    Args:
        address: The host and port of the server.
        namespace: The namespace of the workflows.
        task_queue: The task queue of the workers.
        connect: How long the server may take to respond.
        begin: How long a call may wait for a worker.
        heartbeat: How long a worker may be silent before it counts as dead.
    """

    address: Annotated[Name | None, BeforeValidator(refuse_empty)] = None
    namespace: Annotated[Name | None, BeforeValidator(refuse_empty)] = None
    task_queue: Name = "leonidas"
    connect: Duration = 3.0
    begin: Duration = 10.0
    heartbeat: Duration = 10.0

    @property
    def place(self) -> TemporalConnection:
        """Return the address of the server, with its names and timeouts."""
        return TemporalConnection(
            address=self.address,
            namespace=self.namespace,
            task_queue=self.task_queue,
            connect_seconds=self.connect,
            begin_seconds=self.begin,
            heartbeat_seconds=self.heartbeat,
        )
