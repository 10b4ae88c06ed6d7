"""Settings of toolboxes that run programs in a sandbox."""

import importlib.util
from typing import Annotated, Literal

from pydantic import BeforeValidator

from leonidas_tools.sandbox import Limits, Sandbox
from leonidas_tools.settings.fields import (
    Count,
    Duration,
    LimitOrOff,
    Switch,
    refuse_empty,
)
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.settings.root_settings import FileOrFolder, Folders, workspace

_MEGABYTE = 1 << 20
_FILTER = "pyseccomp"
"""The package that makes the filter of system calls, which the sandbox imports when it starts."""


class SandboxSettings(SettingsModel):
    """Settings of the sandbox: its backend and its limits.

    Args:
        roots: The directories that programs may read and write; they run in the first. A relative
            path is relative to the working directory. By default, `workspace` next to the settings
            file, which is made when it is first used.
        read_only: Directories and files that programs may also read.
        network: Whether programs may use the network.
        backend: The isolation of programs: `bubblewrap`, `landlock`, `auto` for the first of these
            that works, or `none`.
        timeout: How long a program may run, unless the call sets a shorter time.
        cpu_seconds: The maximum processor time of each process.
        memory_megabytes: The maximum memory of a program.
        processes: The maximum number of processes and threads of a program at a time.
        file_megabytes: The maximum size of a file that a program writes.
        output_kilobytes: How much of the output is kept, from its beginning and its end.
    """

    roots: Folders = workspace()
    read_only: tuple[FileOrFolder, ...] = ()
    network: Switch = False
    backend: Annotated[
        Literal["auto", "bubblewrap", "landlock", "none"], BeforeValidator(refuse_empty)
    ] = "auto"
    timeout: Duration = 60.0
    cpu_seconds: LimitOrOff = 60
    memory_megabytes: LimitOrOff = 1024
    processes: LimitOrOff = 64
    file_megabytes: LimitOrOff = 1024
    output_kilobytes: Count = 64

    def sandbox(self, *, read_only: tuple[str, ...] = ()) -> Sandbox:
        """Return the sandbox; `read_only` has more paths that programs may read.

        Raises:
            ModuleNotFoundError: It needs a package that is not installed.
        """
        if self.backend != "none" and importlib.util.find_spec(_FILTER) is None:
            raise ModuleNotFoundError(f"No module named {_FILTER!r}", name=_FILTER)
        limits = Limits(
            timeout_seconds=self.timeout,
            cpu_seconds=self.cpu_seconds or None,
            memory_bytes=(self.memory_megabytes or 0) * _MEGABYTE or None,
            processes=self.processes or None,
            file_bytes=(self.file_megabytes or 0) * _MEGABYTE or None,
            output_bytes=self.output_kilobytes * 1024,
        )
        return Sandbox(
            roots=self.roots,
            read_only=(*self.read_only, *read_only),
            network=self.network,
            limits=limits,
            backend=self.backend,
        )
