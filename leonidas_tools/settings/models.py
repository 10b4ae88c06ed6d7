"""What can be set, as typed and frozen models."""

import functools
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    model_validator,
)

from leonidas_tools.metadata import ToolOrigin
from leonidas_tools.rules.rule import Mode, Rule
from leonidas_tools.settings.fields import (
    Count,
    CountFromZero,
    Duration,
    Metric,
    Name,
    Names,
    Number,
    OptionalCount,
    OptionalNumber,
    Port,
    mapping,
)
from leonidas_tools.settings.mcp_settings import (
    MCPServerSettings,
    MCPToolConfiguration,
    ServerName,
)
from leonidas_tools.settings.model import Model
from leonidas_tools.settings.policy_settings import GuardSettings
from leonidas_tools.settings.rules import (
    AlwaysSettings,
    ApprovalSettings,
    RuleSettings,
    SessionMode,
)
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.settings.tool_configuration import (
    ToolConfiguration,
    ToolConfigurations,
    ToolOverrides,
    merge,
)

__all__ = [
    "AlertRule",
    "MCPServerSettings",
    "MonitoringSettings",
    "PolicySettings",
    "Settings",
    "ToolConfiguration",
]


class AlertRule(Model):
    """When to raise an alert, and when to take it back.

    Args:
        name: What the alert is called.
        metric: What is watched.
        tool: The tool it is about; all tools together when left out.
        above: The alert is raised when the metric goes above this.
        clear_below: The alert is taken back when it falls below this; by default, `above`.
        min_calls: How many calls there must be before the metric says anything.
    """

    name: Name
    metric: Metric
    tool: Name | None = None
    above: Number
    clear_below: OptionalNumber = None
    min_calls: CountFromZero = 20

    @model_validator(mode="after")
    def _clears_below_where_it_is_raised(self) -> Self:
        if self.clear_below is not None and self.clear_below > self.above:
            raise ValueError("clear_below must not be more than above")
        return self


class MonitoringSettings(Model):
    """What is kept and told of the calls.

    Args:
        history_size: How many ended calls are remembered.
        alerts: When to raise an alert.
        prometheus_port: Where `/metrics` is served; nowhere when left out, 0 for any free port.
    """

    history_size: CountFromZero = 1000
    alerts: tuple[AlertRule, ...] = ()
    prometheus_port: Port = None

    @model_validator(mode="after")
    def _alerts_have_names_of_their_own(self) -> Self:
        names = [rule.name for rule in self.alerts]
        if len(set(names)) < len(names):
            raise ValueError("two alerts have the same name: rename one")
        return self


class PolicySettings(GuardSettings):
    """Limits that hold for all tools together.

    Args:
        concurrency: How many calls may run at once; no limit when left out.
        threads: How many sync tools may run at once, each in a thread.
        processes: How many CPU-bound tools may run at once; one a processor when left out.
        max_result_bytes: How long an answer may be, unless the tool says otherwise.
        default_timeout: How long one attempt may take, unless the tool says otherwise.
        mode: How much a session may do by itself: `ask`, `autonomous` or `read_only`.
        rules: Which calls are allowed, asked about, denied or recorded.
        always: Questions that were answered with "always", by a name for each.
        approval: How a person is asked.
    """

    concurrency: OptionalCount = None
    threads: Count = 40
    processes: OptionalCount = None
    max_result_bytes: Count = 65_536
    default_timeout: Duration = 30.0
    mode: SessionMode = Mode.ASK
    rules: tuple[RuleSettings, ...] = ()
    always: Annotated[dict[str, AlwaysSettings], BeforeValidator(mapping)] = Field(
        default_factory=dict
    )
    approval: Annotated[ApprovalSettings, BeforeValidator(mapping)] = (
        ApprovalSettings.model_construct()
    )

    @model_validator(mode="after")
    def _rules_have_names_of_their_own(self) -> Self:
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise ValueError("two rules have the same name: rename one")
        return self

    def all_rules(self) -> list[Rule]:
        """The rules that the engine reads, besides the built-in ones."""
        always = [each.rule(name) for name, each in self.always.items()]
        return [*(each.rule() for each in self.rules), *always]


class Settings(Model):
    """All that can be set.

    Args:
        version: The version of the file's format.
        environment: Which `environment_specific` settings hold; the environment variable
            `LEONIDAS_ENV` overrides it.
        defaults: Settings of every tool that does not say otherwise.
        tools: Settings by tool name.
        toolboxes: Python modules whose tools are loaded.
        mcp_servers: MCP servers by name.
        monitoring: What is kept and told of the calls.
        policies: Limits that hold for all tools together.
        store: What is kept of what happened, and where.

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
    # Read from nothing each time: with a mapping inside, a default that is there would be copied
    # deeply, which takes five times as long.
    defaults: Annotated[ToolConfiguration, BeforeValidator(mapping)] = Field(
        default_factory=dict, validate_default=True
    )
    tools: ToolConfigurations = Field(default_factory=dict)
    toolboxes: Names = ()
    mcp_servers: Annotated[dict[ServerName, MCPServerSettings], BeforeValidator(mapping)] = Field(
        default_factory=dict
    )
    monitoring: Annotated[MonitoringSettings, BeforeValidator(mapping)] = (
        MonitoringSettings.model_construct()
    )
    policies: Annotated[PolicySettings, BeforeValidator(mapping)] = Field(
        default_factory=dict, validate_default=True
    )
    store: Annotated[StoreSettings, BeforeValidator(mapping)] = StoreSettings.model_construct()
    _written: dict[str, str] = PrivateAttr(default_factory=dict)
    _hidden: set[str] = PrivateAttr(default_factory=set)

    @property
    def written(self) -> dict[str, str]:
        """How what came from the environment is written, by what it has become."""
        return self._written

    @property
    def hidden(self) -> set[str]:
        """What came from the environment and is told to nobody but the tools."""
        return self._hidden

    def for_tool(self, name: str, origin: ToolOrigin | None = None) -> ToolConfiguration:
        """What holds for a tool in the active environment; the identical object each time.

        Later ones win: `defaults`, the tool's own, the environment's of `defaults`, the
        environment's of the tool. Settings under `mcp_servers` count as the tool's own, below those
        in `tools`; they reach exactly that server's tool, whatever it is called here.

        Args:
            name: The tool's own name; an unknown one gets the defaults.
            origin: The server it comes from, where it comes from one.
        """
        said = None if origin is None else self.of_server(origin)
        if origin is None or said is None:
            return self.resolved.get(name, self.resolved_defaults)
        key = (name, origin)
        if key not in self.resolved_of_servers:
            own = self.tools.get(name)
            layers = [self.defaults, said, *(() if own is None else (own,))]
            self.resolved_of_servers[key] = merge(self._layers(*layers), self._hidden)
        return self.resolved_of_servers[key]

    def of_server(self, origin: ToolOrigin) -> MCPToolConfiguration | None:
        """What the settings of an MCP server say of one of its tools, if anything."""
        server = self.mcp_servers.get(origin.server)
        return None if server is None else server.tools.get(origin.tool)

    @functools.cached_property
    def resolved_defaults(self) -> ToolConfiguration:
        """What holds for a tool that nothing is said about."""
        return merge(self._layers(self.defaults), self._hidden)

    @functools.cached_property
    def resolved_of_servers(self) -> dict[tuple[str, ToolOrigin], ToolConfiguration]:
        """What holds for each tool of a server that something is said about there, as asked for."""
        return {}

    @functools.cached_property
    def resolved(self) -> Mapping[str, ToolConfiguration]:
        """What holds for each tool that something is said about, by name."""
        return {
            name: merge(self._layers(self.defaults, own), self._hidden)
            for name, own in self.tools.items()
        }

    def __copy__(self) -> Self:
        copied = super().__copy__()
        for resolved in ("resolved", "resolved_defaults", "resolved_of_servers"):
            copied.__dict__.pop(resolved, None)  # a copy may be updated
        return copied

    def _layers(self, *configurations: ToolConfiguration) -> list[ToolOverrides]:
        overrides = (c.environment_specific.get(self.environment) for c in configurations)
        return [*configurations, *(o for o in overrides if o is not None)]
