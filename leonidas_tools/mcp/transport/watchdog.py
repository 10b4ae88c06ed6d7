"""End the processes of a server when the process that started it has ended."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import uuid
from typing import TYPE_CHECKING, Self

from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from types import TracebackType

logger = visible_logger(__name__)

MARK = "LEONIDAS_MCP_SERVER"
"""The environment variable by which a server's processes are known, in any group."""

_SHELL = "/bin/sh"
_SCRIPT = """
group=
while read -r line; do group=$line; done
pause() {
    rounds=0
    while kill -0 "-$group" && [ $rounds -lt 40 ]; do sleep 0.05; rounds=$((rounds + 1)); done
}
if [ -n "$group" ]; then
    pause; kill -TERM "-$group" && pause
    kill -KILL "-$group"
fi
rounds=0
while files=$(grep -lsxzF -e "$1" /proc/[0-9]*/environ); [ -n "$files" ] && [ $rounds -lt 40 ]; do
    for file in $files; do process=${file#/proc/}; kill -KILL "${process%/environ}"; done
    sleep 0.05; rounds=$((rounds + 1))
done
exit 0
"""
_GONE_SECONDS = 2.0
_POLL_SECONDS = 0.01


class Watchdog:
    """A process that waits for the end of its input: ours, and so also our end by a SIGKILL.

    Then it does what `ServerProcess.stop` does: the server, whose input has ended too, may end
    by itself; it is told to; it is killed with its group. A process that left the group is found by
    its environment, where there is a `/proc`, and killed. A shell does for it: 0.2 MB while it
    waits, and no time; starting it takes what starting any process takes.

    A process forked from ours without an exec holds the input open, and so delays all this until
    it ends too.
    """

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - no thread waits for this one; the script is the one above
                [_SHELL, "-c", _SCRIPT, "sh", f"{MARK}={self._mark}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        except OSError as error:
            logger.warning("MCP servers outlive a SIGKILL here, for there is no shell: %s", error)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_GONE_SECONDS):
                while self._process.poll() is None:  # noqa: ASYNC110 - without a thread to wait in
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            logger.debug("The watchdog of an MCP server did not end by itself")
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    @property
    def environment(self) -> dict[str, str]:
        """Return what the server's environment must hold to be found by."""
        return {MARK: self._mark}

    def watch(self, group: int | None) -> None:
        """Name the process group to end; with `None` there is none any more."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(f"{group or ''}\n".encode())
