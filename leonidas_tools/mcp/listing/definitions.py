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
_Made: TypeAlias = tuple["mcp_types.Tool", Mapping[str, Any], Pin | None, bool]
"""The inputs of a tool: the tool is kept while these are unchanged."""
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
        self._known: dict[str, tuple[_Made, AnyTool | None]] = {}
        self._said: list[str] = []

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
            tools_listed, telling = await self._drop_secret_names(listing.tools)
            listed, twice = _by_name(tools_listed)
            used, too_many = _select_tools(settings, listed)
            refused = {self._secrets.text(name): why for name, why in listing.refused.items()}
            named = [*listed, *refused]
            said, pins, report = await self._check_pins(settings, named, used)
            report.findings += check_server(self._server, settings, named)
            report.left_out |= {
                name: self._secrets.text(why)
                for name, why in refused.items()
                if is_used(settings, name)
            } | telling
            tools = await self._read(settings, used, said, pins, report)
            if settings is self.settings:  # otherwise, the settings have changed meanwhile
                self._warn([*twice, *too_many])
                report.after(self.report)
                report.tell(self._server, self.report)
                self.report = report
                return tools

    async def _drop_secret_names(
        self, tools: Iterable[mcp_types.Tool]
    ) -> tuple[list[mcp_types.Tool], dict[str, str]]:
        """Return the tools whose names contain no secret, and the reason for each dropped tool."""
        harmless: list[mcp_types.Tool] = []
        telling: dict[str, str] = {}
        for number, tool in enumerate(tools):
            if number % _SLICE == 0:
                await asyncio.sleep(0)
            shown = self._secrets.text(tool.name)
            if shown == tool.name:
                harmless.append(tool)
            else:
                telling[shown] = "its name contains a secret of the server's settings"
        return harmless, telling

    def _warn(self, warnings: list[str]) -> None:
        """Log the warnings that are new since the previous listing."""
        before = set(self._said)
        new = [f" {warning}" for warning in warnings if warning not in before]
        warn_of_few(self._server, new)
        self._said = warnings

    async def _check_pins(
        self, settings: MCPServerSettings, listed: list[str], used: Mapping[str, mcp_types.Tool]
    ) -> tuple[Mapping[str, ToolDefinition], Mapping[str, Pin] | None, ListingReport]:
        """Return the definitions of the tools, their pins (`None` if unknown), and a report.

        A definition with a secret is left out.
        """
        report = ListingReport(denies=settings.pin == "quarantine")
        said: dict[str, ToolDefinition] = {}

        def look() -> tuple[dict[str, Pin], list[str]]:
            for name, each in used.items():
                definition = described(each, self._secrets)
                try:
                    self._check_secrets(definition)
                except SchemaError as error:  # not pinned: the pins and their changes are shown
                    report.left_out[name] = str(error)
                else:
                    said[name] = definition
            self._names.keep(listed)
            if settings.pin == "off":
                return {}, []
            pins, new = self._pins.check(said)
            report.compare({name: pin for name, pin in pins.items() if pin.waiting is not None})
            return pins, new

        # A separate thread: the disk may be slow, and another process may lock the file.
        worker = ThreadPoolExecutor(1, thread_name_prefix="leonidas-mcp-pins")
        try:
            pins, new = await asyncio.get_running_loop().run_in_executor(worker, look)
        except PinsError as error:
            report.pins_error = str(error)
            if settings.pin == "quarantine":
                report.unknown = sorted(said)
                return said, None, report
            return said, {}, report
        finally:
            worker.shutdown(wait=False)
        report.new = new if len(new) < len(pins) else []
        return said, pins, report

    async def _read(
        self,
        settings: MCPServerSettings,
        used: Mapping[str, mcp_types.Tool],
        definitions: Mapping[str, ToolDefinition],
        pins: Mapping[str, Pin] | None,
        report: ListingReport,
    ) -> list[AnyTool]:
        known: dict[str, tuple[_Made, AnyTool | None]] = {}
        seconds, most_seconds = 0.0, _MAX_SECONDS + _SECONDS_EACH * len(used)
        for name, definition in used.items() if pins is not None else ():
            if len(known) % _SLICE == 0:
                await asyncio.sleep(0)
            if name not in definitions:
                continue
            said = settings.tools.get(name)
            changed = report.changed.get(name)
            made = (definition, {} if said is None else said.arguments, changed, report.denies)
            before = self._known.get(name)
            if before is None or before[0] != made:
                if seconds > most_seconds:
                    report.left_out[name] = f"reading the tools before it took {seconds:.1f} s"
                    continue
                began = time.thread_time()
                before = (made, self._build_tool(made, definitions[name], report))
                seconds += time.thread_time() - began
                await asyncio.sleep(0)  # compiling its schemas may have taken long
            elif before[1] is None:
                report.remember(self.report, name, self._key(name))
            known[name] = before
        self._known = known
        return [tool for _, tool in known.values() if tool is not None]

    def _build_tool(
        self, made: _Made, said: ToolDefinition, report: ListingReport
    ) -> AnyTool | None:
        definition, fixed, changed, denies = made
        if changed is not None and denies:
            said = changed.trusted
        if without_unseen(said.description) != said.description:
            report.unseen.append(definition.name)
        try:
            if definition.execution and definition.execution.task_support == "required":
                raise SchemaError("it runs only as a task, which the protocol no longer has")  # noqa: TRY301 - reported below
            parameters, values = self._parameters(said), dict(fixed)
            if fixed:
                ArgumentValidator(parameters)
                parameters, values = fix(parameters, fixed)
            return self._tool(said, parameters, values, denied=changed is not None and denies)
        except SchemaError as error:
            report.left_out[definition.name] = self._secrets.text(str(error))
        except ConfigurationError as error:
            key = self._key(definition.name)
            report.findings.append(Finding(severity="error", key=key, message=error.message))
        return None

    def _parameters(self, said: ToolDefinition) -> dict[str, Any]:
        """Return the schema of the arguments; raise an error if it contains a secret."""
        self._check_secrets(said)
        visible: dict[str, Any] = visible_schema(upgrade_schema(said.input_schema))
        return visible

    def _check_secrets(self, said: ToolDefinition) -> None:
        if self._secrets(said.input_schema) != said.input_schema:
            raise SchemaError("its parameters contain a secret of the server's settings")

    def _tool(
        self,
        described: ToolDefinition,
        parameters: Mapping[str, Any],
        fixed: Mapping[str, Any],
        *,
        denied: bool,
    ) -> AnyTool:
        name, effect, call = described.name, ToolEffect(described.effect), self._call
        description = without_unseen(described.description)

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
            destructive=described.destructive,
            quarantine=say("mcp_tool_changed", tool=name, server=self._server) if denied else None,
        )
        _ = tool.metadata  # computed now, while the event loop runs, not when all are registered
        return tool

    def _key(self, tool: str) -> str:
        return f"mcp_servers.{self._server}.tools.{tool}.arguments"


def _by_name(tools: Iterable[mcp_types.Tool]) -> tuple[dict[str, mcp_types.Tool], list[str]]:
    """Return the tools by name, and warnings about duplicate names."""
    listed: dict[str, mcp_types.Tool] = {}
    twice: dict[str, None] = {}
    for tool in tools:
        if listed.setdefault(tool.name, tool) is not tool:
            twice[tool.name] = None
    return listed, [f"lists {name!r} twice; the first is used" for name in twice]


def _select_tools(
    settings: MCPServerSettings, listed: Mapping[str, mcp_types.Tool]
) -> tuple[dict[str, mcp_types.Tool], list[str]]:
    """Return the used tools, and a warning if there are more than `max_tools`."""
    used = {name: each for name, each in listed.items() if is_used(settings, name)}
    most = settings.max_tools
    if not most or len(used) <= most:
        return used, []
    said = f"has {len(used)} tools, of which the first {most} are used: see its max_tools"
    return dict(itertools.islice(used.items(), most)), [said]


def described(definition: mcp_types.Tool, secrets: KnownSecrets) -> ToolDefinition:
    """Return the definition of a tool in its pinned and declared form, without secrets."""
    return ToolDefinition(
        name=definition.name,
        description=secrets.text(
            shorten(definition.description or definition.title or "", _MAX_DESCRIPTION_LENGTH)
        ),
        input_schema=schema_without(secrets, definition.input_schema, fewer_options=True),
        effect=effect_of(definition.annotations).value,
        destructive=bool(definition.annotations and definition.annotations.destructive_hint),
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
