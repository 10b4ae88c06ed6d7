"""The settings as typed and frozen models."""

import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)

from leonidas_tools.calls.call import MAX_ARGUMENT_BYTES
from leonidas_tools.engines.base import RayConnection
from leonidas_tools.redaction import secrets_in
from leonidas_tools.results.texts import Wording
from leonidas_tools.rules.engine import RuleBook
from leonidas_tools.rules.rule import Mode, Rule
from leonidas_tools.settings.fields import (
    Count,
    CountFromZero,
    CountOrOff,
    Duration,
    Metric,
    Name,
    Names,
    Number,
    OptionalCount,
    OptionalNumber,
    Port,
    TimeLimit,
    choice,
    choice_schema,
    mapping,
)
from leonidas_tools.settings.mcp_settings import (
    MCPServerSettings,
    ServerName,
)
from leonidas_tools.settings.model import MaskedSettings, SettingsModel
from leonidas_tools.settings.policy_settings import GuardSettings
from leonidas_tools.settings.rules import (
    AlwaysSettings,
    ApprovalSettings,
    RuleSettings,
    SessionMode,
)
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.settings.temporal_settings import TemporalSettings
from leonidas_tools.settings.text_settings import TextSettings
from leonidas_tools.settings.tool_configuration import (
    ToolConfiguration,
    ToolConfigurations,
    ToolOverrides,
    merge,
)
from leonidas_tools.settings.toolbox_settings import NamedToolboxes
from leonidas_tools.settings.usage_settings import UsageSettings
from leonidas_tools.tools.metadata import AfterUntrusted, ToolOrigin

__all__ = [
    "AlertRule",
    "MCPServerSettings",
    "MonitoringSettings",
    "PolicySettings",
    "Settings",
    "ToolConfiguration",
]


class AlertRule(SettingsModel):
    """The condition of an alert.

    Args:
        name: The name of the alert.
        metric: The metric that is observed.
        tool: The tool whose metric is observed; all tools together, if omitted.
        above: The alert is raised when the metric exceeds this value.
        clear_below: The alert is cleared when the metric falls below this value; by default,
            `above`.
        min_calls: The minimum number of calls before the metric counts.
        level: The log level of a raised alert; a cleared alert is logged as info.
    """

    name: Name
    metric: Metric
    tool: Name | None = None
    above: Number
    clear_below: OptionalNumber = None
    min_calls: CountFromZero = 20
    level: Literal["info", "warning", "error", "critical"] = "warning"

    @model_validator(mode="after")
    def _clears_below_where_it_is_raised(self) -> Self:
        if self.clear_below is not None and self.clear_below > self.above:
            raise ValueError("clear_below must not be more than above")
        return self


class MonitoringSettings(SettingsModel):
    """Settings of metrics, history and alerts.

    Args:
        history_size: The number of ended calls in the history.
        alerts: The conditions of alerts.
        prometheus_port: The port of `/metrics` on this machine, or the next free one; none, if
            omitted, and 0 for any free port.
        tracing: Whether calls, sessions, connections and approvals are spans of OpenTelemetry.
    """

    history_size: CountFromZero = 1000
    alerts: tuple[AlertRule, ...] = ()
    prometheus_port: Port = None
    tracing: bool = False

    @model_validator(mode="after")
    def _alerts_have_names_of_their_own(self) -> Self:
        names = [rule.name for rule in self.alerts]
        if len(set(names)) < len(names):
            raise ValueError("two alerts have the same name: rename one")
        return self


def _parse_off(value: Any) -> Any:
    """Return `off`, which YAML may read as false, as the word."""
    return "off" if value is False else value


class PolicySettings(GuardSettings):
    """Limits and rules for all tools together.

    Args:
        concurrency: The maximum number of calls that run at once; no limit if omitted, or with `0`
            or `off`.
        threads: The maximum number of sync tools that run at once, each in a thread.
        processes: The maximum number of CPU-bound tools that run at once; one per processor, if
            omitted.
        max_result_bytes: The maximum bytes of a result, unless the tool has its own limit.
        max_argument_bytes: The maximum bytes of the arguments of a call; each value and each name
            counts 64 bytes and its text. A call with longer arguments is refused.
        similar_tool: What runs in place of a tool that does not exist. With `read`, it is a tool
            that changes nothing, whose name is clearly the closest and whose schema accepts the
            arguments.
        default_timeout: The timeout of one attempt, unless the tool has its own. It cannot be
            switched off.
        mode: How much a session may do by itself: `ask`, `autonomous` or `read_only`.
        risky: What happens to calls with an effect of tools that do not say whether they require
            approval, and whose name or MCP server says that they delete, send, pay, or move more
            than ten things: `ask` or `allow`.
        rules: Which calls are allowed, asked about, denied or recorded.
        always: Questions that were answered with "always", by a name for each.
        approval: How a person is asked.
        after_untrusted: What happens to calls with an effect once the session has read untrusted
            content, if some of their arguments did not come from the user: `ask`, `deny` or
            `allow`. If omitted, they ask, and are denied in the mode `autonomous`.
    """

    concurrency: CountOrOff = None
    threads: Count = 40
    processes: OptionalCount = None
    max_result_bytes: Count = 65_536
    max_argument_bytes: Count = MAX_ARGUMENT_BYTES
    similar_tool: Annotated[Literal["off", "read"], BeforeValidator(_parse_off)] = "off"
    default_timeout: TimeLimit = 30.0
    mode: SessionMode = Mode.ASK
    risky: Literal["ask", "allow"] = "ask"
    rules: tuple[RuleSettings, ...] = ()
    always: Annotated[dict[str, AlwaysSettings], BeforeValidator(mapping)] = Field(
        default_factory=dict
    )
    approval: Annotated[ApprovalSettings, BeforeValidator(mapping)] = (
        ApprovalSettings.model_construct()
    )
    after_untrusted: Annotated[
        AfterUntrusted | None,
        BeforeValidator(choice(AfterUntrusted)),
        WithJsonSchema(choice_schema(AfterUntrusted)),
    ] = None

    @model_validator(mode="after")
    def _rules_have_names_of_their_own(self) -> Self:
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise ValueError("two rules have the same name: rename one")
        return self

    def all_rules(self) -> list[Rule]:
        """Return the rules for the engine, without the built-in ones."""
        always = [each.rule(name) for name, each in self.always.items()]
        return [*(each.rule() for each in self.rules), *always]

    def rule_book(self) -> RuleBook:
        """Return the rules for the engine, with the built-in ones."""
        return RuleBook(self.all_rules(), asks_if_risky=self.risky == "ask")


_RESOLVED = ("resolved", "resolved_defaults", "resolved_of_servers", "toolbox_secrets", "wording")


class RaySettings(SettingsModel):
    """The Ray cluster of the tools with `runs_on: ray`.

    Args:
        address: The address of the cluster, such as `auto` or `10.0.0.1:6379`; by default that of
            the environment variable `RAY_ADDRESS`.
        connect: How long a call waits for the connection.
    """

    address: Name | None = None
    connect: Duration = 15.0

    @property
    def place(self) -> RayConnection:
        """Return the address of the cluster, and how long to wait for it."""
        return RayConnection(address=self.address, connect_seconds=self.connect)


class Settings(MaskedSettings):
    """All settings.

    Args:
        version: The version of the file's format.
        environment: The environment whose `environment_specific` settings apply; the environment
            variable `LEONIDAS_ENV` overrides it.
        defaults: Settings of all tools, unless a tool overrides them.
        tools: Settings by tool name.
        toolboxes: Toolboxes to load, by name: a built-in one, a Python file next to this file or in
            the working directory, an installed entry point or module. The settings of a toolbox
            are below its name.
        mcp_servers: MCP servers by name.
        monitoring: Metrics, history and alerts.
        policies: Limits and rules for all tools together.
        temporal: The Temporal server of the tools that run there.
        store: The records that are stored, and where.
        ray: The Ray cluster of the tools that run on one.
        texts: Other texts for the messages of the library to a model or a user.
        usage: Prices of the tokens of live sessions, and limits.
        profiles: YAML files with profiles of live models, as `leonidas live probe` writes them;
            they come before the built-in ones. A path is relative to the folder of this file.

    Example:
        >>> settings = Settings(
        ...     environment="production",
        ...     defaults={"timeout": "10s"},
        ...     tools={"search": {"environment_specific": {"production": {"timeout": "2s"}}}},
        ... )
        >>> settings.for_tool("search").timeout, settings.for_tool("another").timeout
        (2.0, 10.0)
    """

    version: Literal[1] = 1
    environment: Name = "development"
    # Built from `{}` each time: pydantic would copy an existing default with a mapping deeply,
    # which takes five times as long.
    defaults: Annotated[ToolConfiguration, BeforeValidator(mapping)] = Field(
        default_factory=dict, validate_default=True
    )
    tools: ToolConfigurations = Field(default_factory=dict)
    toolboxes: NamedToolboxes = ()
    mcp_servers: Annotated[dict[ServerName, MCPServerSettings], BeforeValidator(mapping)] = Field(
        default_factory=dict
    )
    monitoring: Annotated[MonitoringSettings, BeforeValidator(mapping)] = (
        MonitoringSettings.model_construct()
    )
    policies: Annotated[PolicySettings, BeforeValidator(mapping)] = Field(
        default_factory=dict, validate_default=True
    )
    temporal: Annotated[TemporalSettings, BeforeValidator(mapping)] = (
        TemporalSettings.model_construct()
    )
    store: Annotated[StoreSettings, BeforeValidator(mapping)] = StoreSettings.model_construct()
    ray: Annotated[RaySettings, BeforeValidator(mapping)] = RaySettings.model_construct()
    texts: Annotated[TextSettings, BeforeValidator(mapping)] = Field(
        default_factory=TextSettings.model_construct
    )
    usage: Annotated[UsageSettings, BeforeValidator(mapping)] = UsageSettings.model_construct()
    profiles: Names = ()
    _written: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def written(self) -> dict[str, str]:
        """Return the text with variables, as written, by the text with their values."""
        return self._written

    @property
    def hidden(self) -> set[str]:
        """Return values of the environment that only tools may see."""
        return self._hidden

    def for_tool(self, name: str, origin: ToolOrigin | None = None) -> ToolConfiguration:
        """Return the settings of a tool in the active environment, the same object each time.

        Later layers override earlier ones: `defaults`, the tool, the environment in `defaults`, the
        environment in the tool. A tool's settings under `mcp_servers` come just before those in
        `tools`; they apply to that server's tool only, also under another name.

        Args:
            name: The tool's own name; an unknown tool gets the defaults.
            origin: The server of the tool, if it has one.
        """
        server = None if origin is None else self.mcp_servers.get(origin.server)
        if origin is None or server is None:
            return self.resolved.get(name, self.resolved_defaults)
        key = (name, origin)
        if key not in self.resolved_of_servers:
            self.resolved_of_servers[key] = self._merge_for_server(name, origin, server)
        return self.resolved_of_servers[key]

    def _merge_for_server(
        self, name: str, origin: ToolOrigin, server: MCPServerSettings
    ) -> ToolConfiguration:
        """Return the settings of a server's tool; credentials of the server are secret."""
        secrets = server.secrets()
        if (own := server.tools.get(origin.tool)) is not None:
            secrets = (*secrets, *secrets_in(own.arguments, self._hidden))
        if origin.tool not in server.tools and not secrets and not server.untrusted:
            return self.resolved.get(name, self.resolved_defaults)
        secrets = (*secrets, *self.toolbox_secrets)
        return merge(self._values(self.layers(name, origin)), self._hidden, secrets)

    def layers(
        self, name: str, origin: ToolOrigin | None = None
    ) -> list[tuple[str, ToolOverrides]]:
        """Return the layers of a tool's settings; later layers override earlier ones.

        Args:
            name: The tool's own name.
            origin: The server of the tool, if it has one.

        Returns:
            The key of each layer in the file, such as `tools.search`, and its settings.
        """
        sections = {"defaults": self.defaults}
        server = None if origin is None else self.mcp_servers.get(origin.server)
        if server is not None and server.untrusted and origin is not None:
            marked = ToolConfiguration.model_validate({"untrusted": True})
            sections[f"mcp_servers.{origin.server}"] = marked
        if origin is not None and server is not None and origin.tool in server.tools:
            sections[f"mcp_servers.{origin.server}.tools.{origin.tool}"] = server.tools[origin.tool]
        if name in self.tools:
            sections[f"tools.{name}"] = self.tools[name]
        environment = self.environment
        of_environment = {
            f"{key}.environment_specific.{environment}": said.environment_specific[environment]
            for key, said in sections.items()
            if environment in said.environment_specific
        }
        return [*sections.items(), *of_environment.items()]

    @functools.cached_property
    def resolved_defaults(self) -> ToolConfiguration:
        """Return the settings of a tool that is not configured."""
        own = self.defaults.environment_specific.get(self.environment)
        layers: list[ToolOverrides] = [self.defaults] if own is None else [self.defaults, own]
        return merge(layers, self._hidden, self.toolbox_secrets)

    @functools.cached_property
    def toolbox_secrets(self) -> tuple[str, ...]:
        """Return the secret settings of toolboxes, which no tool may return."""
        settings = {toolbox.name: toolbox.settings for toolbox in self.toolboxes}
        return secrets_in(settings, self._hidden)

    @functools.cached_property
    def resolved_of_servers(self) -> dict[tuple[str, ToolOrigin], ToolConfiguration]:
        """Return the cached settings of the tools of MCP servers."""
        return {}

    @functools.cached_property
    def resolved(self) -> Mapping[str, ToolConfiguration]:
        """Return the settings of each configured tool, by name."""
        secrets = self.toolbox_secrets
        return {
            name: merge(self._values(self.layers(name)), self._hidden, secrets)
            for name in self.tools
        }

    @property
    def shares_results(self) -> bool:
        """Return whether any tool shares its cached results with other processes."""
        servers = self.mcp_servers.values()
        sections = [self.defaults, *self.tools.values()]
        sections += [tool for server in servers for tool in server.tools.values()]
        layers = (each for said in sections for each in (said, *said.environment_specific.values()))
        return any(layer.cache_shared for layer in layers)

    @functools.cached_property
    def wording(self) -> Wording | None:
        """Return the texts that the settings replace; `None` if there are none."""
        said = {key: getattr(self.texts, key) for key in self.texts.model_fields_set}
        return Wording(said) if said else None

    def __copy__(self) -> Self:
        copied = super().__copy__()
        for resolved in _RESOLVED:
            copied.__dict__.pop(resolved, None)  # a copy may be updated
        return copied

    @staticmethod
    def _values(layers: list[tuple[str, ToolOverrides]]) -> list[ToolOverrides]:
        return [values for _, values in layers]
