"""Convert the listing of a server to `Tool`s."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias

from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import ConfigurationError, SchemaError, ToolDeniedError
from leonidas_tools.json_schema import ArgumentValidator
from leonidas_tools.mcp.listing.drafts import upgrade_schema
from leonidas_tools.mcp.listing.fixed_arguments import fix
from leonidas_tools.mcp.listing.tool_names import ListedNames, check_server, is_used
from leonidas_tools.mcp.trust.pins import Pin, Pins, PinsError, ToolDefinition, identity_of
from leonidas_tools.mcp.trust.quarantine import ListingReport, warn_of_few
from leonidas_tools.redaction import KnownSecrets
from leonidas_tools.redaction.schemas import schema_without
from leonidas_tools.redaction.visible import hides, revealed, visible_logger, without_unseen
from leonidas_tools.results.texts import say, shorten
from leonidas_tools.settings.problem import Finding
from leonidas_tools.tools.tool import Tool, ToolCategory, ToolEffect, ToolOrigin

if TYPE_CHECKING:
    import mcp_types

    from leonidas_tools.mcp.listing.listing import Listing
    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)
_SLICE = 64
"""Schemas read in one iteration of the event loop: each takes about 50 microseconds."""
_MAX_DESCRIPTION_LENGTH = 65_536
"""Most characters of a description that are used: a description is scanned several times."""
_MAX_SECONDS = 5.0
"""Most seconds of CPU time for the definitions of a listing, in addition to those for each tool."""
_SECONDS_EACH = 0.002
"""Seconds of CPU time for each tool: most take a quarter of it, and more on a busy machine."""
AnyTool: TypeAlias = Tool[..., Any]
CallTool: TypeAlias = Callable[
    [str, Mapping[str, Any], ToolContext, ToolEffect], Awaitable[ToolResult]
]
"""Calls a tool of a server: its name, its arguments, the context and its effect."""
_Inputs: TypeAlias = tuple["mcp_types.Tool", Mapping[str, Any], Pin | None]
"""A listed tool, its fixed arguments, and its pin if it is in quarantine: as long as these are
unchanged, its `Tool` is kept."""
_TEXTS = frozenset({"description", "title", "$comment"})


class DefinitionReader:
    """Reads the tools of one server; a tool with an unchanged definition keeps its `Tool`.

    Args:
        server: The server's name.
        settings: The server's settings, which select its tools.
        call: Calls a tool of the server.
    """

    def __init__(self, server: str, settings: MCPServerSettings, call: CallTool) -> None:
        self.settings = settings
        self.report = ListingReport()
        """Problems and notes of the last listing, for the user."""
        self._server = server
        self._call = call
        self._identity = identity_of(settings)
        self._pins = Pins(server, self._identity)
        self._secrets = KnownSecrets(settings.secrets())
        self._names = ListedNames(server)
        self._read_for: MCPServerSettings | None = None
        self._known: dict[str, tuple[_Inputs, AnyTool | None]] = {}
        self._logged: list[str] = []

    @property
    def are_stale(self) -> bool:
        """Return whether settings or trusted definitions have changed since the last read."""
        if self._read_for not in (None, self.settings):
            return True
        return bool(self.report.quarantined) and self._pins.are_stale

    def check_trust(self, tool: str) -> None:
        """Check that a tool may still run: its definition may have changed since the call.

        Raises:
            ToolDeniedError: The tool is in quarantine.
        """
        if tool in self.report.quarantined:
            message = say("mcp_tool_changed", tool=tool, server=self._server)
            raise ToolDeniedError(message, reason_code="quarantined")

    async def read(self, listing: Listing) -> list[AnyTool]:
        """Return the tools that can be used; the others are skipped with a warning."""
        while True:
            self._read_for = settings = self.settings
            harmless, secret_names = await self._drop_secret_names(listing.tools)
            listed, repeated = _by_name(harmless)
            used, too_many = _select_tools(settings, listed)
            refused = {self._secrets.text(name): why for name, why in listing.refused.items()}
            names = [*listed, *refused]
            definitions, report = await self._check_pins(settings, names, used)
            report.findings += check_server(self._server, settings, names)
            report.left_out |= {
                name: self._secrets.text(why)
                for name, why in refused.items()
                if is_used(settings, name)
            } | secret_names
            tools = await self._build_tools(settings, used, definitions, report)
            if settings is self.settings:  # otherwise, the settings have changed meanwhile
                self._warn([*repeated, *too_many])
                report.find_news(self.report)
                report.log(self._server, self.report)
                self.report = report
                return tools

    async def _drop_secret_names(
        self, tools: Iterable[mcp_types.Tool]
    ) -> tuple[list[mcp_types.Tool], dict[str, str]]:
        """Return the tools whose names contain no secret, and the reason for each dropped tool."""
        harmless: list[mcp_types.Tool] = []
        reasons: dict[str, str] = {}
        for number, tool in enumerate(tools):
            if number % _SLICE == 0:
                await asyncio.sleep(0)
            shown = self._secrets.text(tool.name)
            if shown == tool.name:
                harmless.append(tool)
            else:
                reasons[shown] = "its name contains a secret of the server's settings"
        return harmless, reasons

    def _warn(self, warnings: list[str]) -> None:
        """Log the warnings that are new since the previous listing."""
        before = set(self._logged)
        new = [f" {warning}" for warning in warnings if warning not in before]
        warn_of_few(self._server, new)
        self._logged = warnings

    async def _check_pins(
        self, settings: MCPServerSettings, names: list[str], used: Mapping[str, mcp_types.Tool]
    ) -> tuple[Mapping[str, ToolDefinition], ListingReport]:
        """Return the definitions of the tools that may be built, and a report of their changes.

        A definition with a secret is left out, and so are all if the quarantine is unknown.
        """
        report = ListingReport(denies=settings.pin == "quarantine")
        definitions: dict[str, ToolDefinition] = {}

        def check() -> tuple[dict[str, Pin], list[str]]:
            for name, tool in used.items():
                definition = definition_of(tool, self._secrets)
                try:
                    self._check_secrets(definition)
                except SchemaError as error:  # not pinned: the pins and their changes are shown
                    report.left_out[name] = str(error)
                else:
                    definitions[name] = definition
            self._names.keep(names)
            if settings.pin == "off":
                return {}, []
            pins, new = self._pins.check(definitions)
            report.compare({name: pin for name, pin in pins.items() if pin.waiting is not None})
            return pins, new

        # A separate thread: the disk may be slow, and another process may lock the file.
        worker = ThreadPoolExecutor(1, thread_name_prefix="leonidas-mcp-pins")
        try:
            pins, new = await asyncio.get_running_loop().run_in_executor(worker, check)
        except PinsError as error:
            report.pins_error = str(error)
            if report.denies:
                report.unknown = sorted(definitions)
                return {}, report
            return definitions, report
        finally:
            worker.shutdown(wait=False)
        report.new = new if len(new) < len(pins) else []
        return definitions, report

    async def _build_tools(
        self,
        settings: MCPServerSettings,
        used: Mapping[str, mcp_types.Tool],
        definitions: Mapping[str, ToolDefinition],
        report: ListingReport,
    ) -> list[AnyTool]:
        known: dict[str, tuple[_Inputs, AnyTool | None]] = {}
        seconds, max_seconds = 0.0, _MAX_SECONDS + _SECONDS_EACH * len(used)
        for name, definition in definitions.items():
            if len(known) % _SLICE == 0:
                await asyncio.sleep(0)
            configured = settings.tools.get(name)
            fixed = {} if configured is None else configured.arguments
            inputs = (used[name], fixed, report.changed.get(name) if report.denies else None)
            inputs_before, tool = self._known.get(name, (None, None))
            if inputs_before != inputs:
                if seconds > max_seconds:
                    report.left_out[name] = f"reading the tools before it took {seconds:.1f} s"
                    continue
                began = time.thread_time()
                tool = self._build_tool(inputs, definition, report)
                seconds += time.thread_time() - began
                await asyncio.sleep(0)  # compiling its schemas may have taken long
            elif tool is None:
                report.remember(self.report, name, self._key(name))
            known[name] = inputs, tool
        self._known = known
        return [tool for _, tool in known.values() if tool is not None]

    def _build_tool(
        self, inputs: _Inputs, definition: ToolDefinition, report: ListingReport
    ) -> AnyTool | None:
        listed, fixed, quarantined = inputs
        if quarantined is not None:
            definition = quarantined.trusted
        if without_unseen(definition.description) != definition.description:
            report.unseen.append(listed.name)
        try:
            if listed.execution and listed.execution.task_support == "required":
                raise SchemaError("it runs only as a task, which the protocol no longer has")  # noqa: TRY301 - reported below
            self._check_secrets(definition)
            parameters = visible_schema(upgrade_schema(definition.input_schema))
            values = dict(fixed)
            if fixed:
                ArgumentValidator(parameters)
                parameters, values = fix(parameters, fixed)
            return self._tool(definition, parameters, values, denied=quarantined is not None)
        except SchemaError as error:
            report.left_out[listed.name] = self._secrets.text(str(error))
        except ConfigurationError as error:
            key = self._key(listed.name)
            report.findings.append(Finding(severity="error", key=key, message=error.message))
        return None

    def _check_secrets(self, definition: ToolDefinition) -> None:
        if self._secrets(definition.input_schema) != definition.input_schema:
            raise SchemaError("its parameters contain a secret of the server's settings")

    def _tool(
        self,
        definition: ToolDefinition,
        parameters: Mapping[str, Any],
        fixed: Mapping[str, Any],
        *,
        denied: bool,
    ) -> AnyTool:
        name, effect, call = definition.name, ToolEffect(definition.effect), self._call
        description = without_unseen(definition.description)

        # No MCP tool has an argument with the name of this parameter.
        async def run(leonidas_tool_context: ToolContext, **arguments: Any) -> ToolResult:
            return await call(name, {**arguments, **fixed}, leonidas_tool_context, effect)

        tool: AnyTool = Tool.from_json_schema(
            name=name,
            description=description,
            parameters=parameters,
            function=run,
            category=ToolCategory.MCP,
            effect=None if effect is ToolEffect.ONCE else effect,  # `ONCE` without a hint
            lane=f"mcp:{self._server}",
            tags=("mcp", self._server),
            origin=ToolOrigin(server=self._server, tool=name, identity=self._identity),
            fixed=fixed,
            destructive=definition.destructive,
            quarantine=say("mcp_tool_changed", tool=name, server=self._server) if denied else None,
        )
        _ = tool.metadata  # computed now, while the event loop runs, not when all are registered
        return tool

    def _key(self, tool: str) -> str:
        return f"mcp_servers.{self._server}.tools.{tool}.arguments"


def _by_name(tools: Iterable[mcp_types.Tool]) -> tuple[dict[str, mcp_types.Tool], list[str]]:
    """Return the tools by name, and warnings about duplicate names."""
    listed: dict[str, mcp_types.Tool] = {}
    repeated: dict[str, None] = {}
    for tool in tools:
        if listed.setdefault(tool.name, tool) is not tool:
            repeated[tool.name] = None
    return listed, [f"lists {name!r} twice; the first is used" for name in repeated]


def _select_tools(
    settings: MCPServerSettings, listed: Mapping[str, mcp_types.Tool]
) -> tuple[dict[str, mcp_types.Tool], list[str]]:
    """Return the used tools, and a warning if there are more than `max_tools`."""
    used = {name: each for name, each in listed.items() if is_used(settings, name)}
    most = settings.max_tools
    if not most or len(used) <= most:
        return used, []
    warning = f"has {len(used)} tools, of which the first {most} are used: see its max_tools"
    return dict(itertools.islice(used.items(), most)), [warning]


def definition_of(tool: mcp_types.Tool, secrets: KnownSecrets) -> ToolDefinition:
    """Return the definition of a tool in its pinned and declared form, without secrets."""
    description = shorten(tool.description or tool.title or "", _MAX_DESCRIPTION_LENGTH)
    return ToolDefinition(
        name=tool.name,
        description=secrets.text(description),
        input_schema=schema_without(secrets, tool.input_schema, fewer_options=True),
        effect=effect_of(tool.annotations).value,
        destructive=bool(tool.annotations and tool.annotations.destructive_hint),
    )


def effect_of(annotations: mcp_types.ToolAnnotations | None) -> ToolEffect:
    """Return the effect of a call, by the annotations of the server.

    Annotations are hints of a server that may not be trusted. They decide how often a call may be
    repeated, and what may run at the same time. A missing hint has the default of the protocol: a
    tool changes something on each call. `read_only_hint` overrides all other hints.
    `destructive_hint` and `open_world_hint` are ignored here, because they affect neither
    repetition nor concurrency; an explicit `destructive_hint` makes a tool ask (`policies.risky`).
    Its default in the protocol is true, which carries no information.

    Effect and explicit hint are part of a tool's pin, so a server cannot evade a rule or a question
    later. `effect` in the settings overrides a hint that cannot be trusted at all.
    """
    if annotations is None:
        return ToolEffect.ONCE
    if annotations.read_only_hint:
        return ToolEffect.READ
    return ToolEffect.IDEMPOTENT if annotations.idempotent_hint else ToolEffect.ONCE


def visible_schema(schema: Any) -> Any:
    r"""Return the schema without hidden characters in its descriptions.

    Raises:
        SchemaError: A name or a value, which cannot be changed, contains hidden characters.

    Example:
        >>> visible_schema({"properties": {"a": {"description": "A\u200b number."}}})
        {'properties': {'a': {'description': 'A number.'}}}
    """
    if isinstance(schema, Mapping):
        return {_clean_value(key): _clean_item(key, value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [visible_schema(item) for item in schema]
    return _clean_value(schema)


def _clean_item(key: str, value: Any) -> Any:
    if isinstance(value, str):
        if key in _TEXTS:
            return without_unseen(value)
        return value if key == "pattern" else _clean_value(value)
    return visible_schema(value)


def _clean_value(value: Any) -> Any:
    if isinstance(value, str) and hides(value):
        raise SchemaError(f"its schema has hidden characters in {revealed(value)!r}")
    return value
