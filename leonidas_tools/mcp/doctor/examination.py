"""Examine a server step by step."""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from leonidas_tools.errors import ToolError
from leonidas_tools.mcp.calls.call import ServerCall
from leonidas_tools.mcp.connection.connection import MCPConnection
from leonidas_tools.mcp.doctor.address import (
    check_address,
    find_server,
    is_wrong_path,
    needs_login,
)
from leonidas_tools.mcp.doctor.check_result import CheckResult, failed, note, ok
from leonidas_tools.mcp.doctor.command import check_before_start, hint_for
from leonidas_tools.mcp.listing.definitions import DefinitionReader, definition_of
from leonidas_tools.mcp.transport.reasons import root_error, with_place
from leonidas_tools.mcp.trust.pins import Pins, PinsError, identity_of
from leonidas_tools.mcp.trust.quarantine import fields_of
from leonidas_tools.redaction import KnownSecrets
from leonidas_tools.results.texts import say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import mcp_types

    from leonidas_tools.mcp.listing.listing import Listing
    from leonidas_tools.settings.mcp_settings import MCPServerSettings

_OF_SECRETS = re.compile("env|secret|token|key|password|credential", re.IGNORECASE)

OnResult: TypeAlias = "Callable[[CheckResult], None]"


async def examine(
    name: str,
    settings: MCPServerSettings,
    report: OnResult,
    *,
    call: bool = True,
    before_call: Callable[[str], None] = lambda _: None,
) -> bool:
    """Check everything that a server needs, in order; stop at the first failure.

    With `call`, a tool that only reads is called last; `before_call` is given its name before.

    Returns:
        Whether the server works.
    """
    if not settings.enabled:
        report(note("settings", "it is disabled", "set `enabled: true` to enable it"))
    async for finding in _check_before_connecting(settings):
        report(finding)
        if finding.outcome == "failed":
            return False
    return await _Examination(name, settings, report).run(before_call if call else None)


async def _check_before_connecting(settings: MCPServerSettings) -> AsyncIterator[CheckResult]:
    if settings.command is None:
        async for finding in check_address(settings):
            yield finding
    else:
        for finding in check_before_start(settings):
            yield finding


class _Examination:
    """The steps that use a connection to the server."""

    def __init__(self, name: str, settings: MCPServerSettings, report: OnResult) -> None:
        self._name = name
        self._settings = settings
        self._report = report
        self._discovers = True
        self._connection = MCPConnection(name, settings)
        self._step = "start" if settings.command is not None else "protocol"

    async def run(self, before_call: Callable[[str], None] | None) -> bool:
        connection = self._connection
        guard = asyncio.timeout(connection.limit_seconds)
        try:
            async with guard, connection:
                self._report(self._check_protocol())
                self._step = "tools"
                tools = await self._check_tools(await connection.tools())
                if tools is None:
                    return False
                self._step = "ping"
                self._report(await self._ping())
                guard.reschedule(None)
                if before_call is None:
                    return True
                answer = await self._call_tool(tools, before_call)
                self._report(answer)
                return answer.outcome != "failed"
        except Exception as error:  # noqa: BLE001 - any error is a finding
            if self._discovers and connection.needs_initialize and not guard.expired():
                self._discovers = False
                self._connection = MCPConnection(self._name, self._settings, discovers=False)
                return await self.run(before_call)
            self._report(await self._explain(error, gave_up=guard.expired()))
        return False

    def _check_protocol(self) -> CheckResult:
        status = self._connection.status
        version = status["protocol_version"]
        era = "without sessions" if version in MODERN_PROTOCOL_VERSIONS else "with a session"
        return ok(self._step, f"it uses MCP {version}, {era}", status["connect_seconds"])

    async def _check_tools(self, listed: Listing) -> list[mcp_types.Tool] | None:
        """Report the usable tools, and return them; `None` if all are in quarantine."""
        # An examination does not use the tools, so it must not pin them.
        unpinned = self._settings.model_copy(update={"pin": "off"})
        warnings = _WarningCollector()
        logger = logging.getLogger("leonidas_tools.mcp")
        logger.addHandler(warnings)
        try:
            usable = await DefinitionReader(self._name, unpinned, _never_called).read(listed)
        finally:
            logger.removeHandler(warnings)
        names = {tool.origin.tool for tool in usable if tool.origin is not None}
        tools = [tool for tool in listed.tools if tool.name in names]
        changes = self._changes(tools)
        runs = [tool for tool in tools if tool.name not in changes]
        shown = ", ".join(tool.name for tool in runs)
        message = f"{len(runs)} can be used: {shown}" if runs else "none can be used"
        message = message if listed.tools else "it has none"
        self._report(CheckResult(step="tools", outcome="ok" if runs else "note", message=message))
        for text in warnings.texts:
            self._report(note("tools", text))
        for name, change in changes.items():
            self._report(
                CheckResult(
                    step="tools",
                    outcome="note" if runs else "failed",
                    message=f"{name!r} {change}, and is not run",
                    hint=f"see the change: `leonidas mcp trust {shlex.quote(self._name)}`",
                )
            )
        return None if changes and not runs else runs

    def _changes(self, tools: list[mcp_types.Tool]) -> dict[str, str]:
        """Return the reasons for the quarantine of tools, by name."""
        if self._settings.pin != "quarantine":
            return {}
        try:
            pinned = Pins(self._name, identity_of(self._settings)).pinned()
        except PinsError:
            return {tool.name: "may have changed: its pin cannot be read" for tool in tools}
        secrets = KnownSecrets(self._settings.secrets())
        pins = {
            tool.name: pinned[tool.name].seen(definition_of(tool, secrets))
            for tool in tools
            if tool.name in pinned
        }
        return {
            name: f"has changed since it was first used ({', '.join(fields_of(pin))})"
            for name, pin in pins.items()
            if pin.waiting is not None
        }

    async def _ping(self) -> CheckResult:
        begun = time.perf_counter()
        await self._connection.ping()
        return ok("ping", "it responds", time.perf_counter() - begun)

    async def _call_tool(
        self, tools: list[mcp_types.Tool], before_call: Callable[[str], None]
    ) -> CheckResult:
        tool = min(filter(_is_harmless, tools), key=_parameters, default=None)
        if tool is None:
            return ok(
                "call",
                "no call: no read-only tool without required arguments, and without secrets in "
                "its name or description",
            )
        before_call(tool.name)
        begun = time.perf_counter()
        seconds = self._connection.limit_seconds
        try:
            async with asyncio.timeout(seconds):
                call = ServerCall(tool=tool.name, arguments={}, once=False, seconds=seconds)
                answer = await self._connection.call(call, _no_progress)
        except ToolError as error:
            return failed("call", f"{tool.name}: {error.message}")
        except TimeoutError:
            message = f"{tool.name} did not respond within {seconds:g} s"
            return note("call", message)
        refused = "" if answer.ok else " with an error"
        return CheckResult(
            step="call",
            outcome="ok" if answer.ok else "note",
            message=f"{tool.name} responds{refused}",
            seconds=time.perf_counter() - begun,
        )

    async def _explain(self, error: Exception, *, gave_up: bool) -> CheckResult:
        settings, connection = self._settings, self._connection
        # After the timeout, the end of the server is a consequence, not the reason.
        reason = with_place(say("mcp_late"), settings.url) if gave_up else connection.explain(error)
        if settings.command is not None:
            is_late = connection.lost is None and isinstance(root_error(error), TimeoutError)
            output = connection.last_output
            hint = hint_for(
                settings,
                output,
                has_printed=connection.has_printed,
                is_late=gave_up or is_late,
                exit_code=connection.exit_code,
            )
            return failed(self._step, reason + output, hint)
        message, _, hint = reason.partition("; ")
        if not gave_up and is_wrong_path(error):
            other = await find_server(settings)
            if other is not None:
                hint = f"an MCP server responds at {other}: set that url"
        if needs_login(error):
            message, _, hint = reason.partition(": ")
        return failed(self._step, message, hint or None)


class _WarningCollector(logging.Handler):
    """Collects the texts of warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _is_harmless(tool: mcp_types.Tool) -> bool:
    reads = tool.annotations is not None and bool(tool.annotations.read_only_hint)
    told = f"{tool.name} {tool.description or ''}"
    return reads and not tool.input_schema.get("required") and not _OF_SECRETS.search(told)


def _parameters(tool: mcp_types.Tool) -> int:
    return len(tool.input_schema.get("properties") or ())


async def _no_progress(progress: float | None, total: float | None, message: str | None) -> None:
    """Ignore progress."""


async def _never_called(*_: Any) -> Any:
    raise AssertionError
