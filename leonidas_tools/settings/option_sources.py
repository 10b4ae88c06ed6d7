"""The effective options of a tool, each value with its source."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.policies.lane import default_lane
from leonidas_tools.redaction import KnownSecrets, is_secret_name
from leonidas_tools.rules.rule import Mode
from leonidas_tools.rules.subject import subject_of
from leonidas_tools.settings.effective import effective_options, either, scheduling_of
from leonidas_tools.settings.shown import display_parameters
from leonidas_tools.tools.metadata import AfterUntrusted, RunsOn, ToolMetadata, is_off
from leonidas_tools.tools.tool import ToolEffect, ToolPriority, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.settings.models import Settings, ToolConfiguration
    from leonidas_tools.tools.registry import AnyTool

Source: TypeAlias = Literal["default", "decorator", "settings", "mcp annotation"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Effective:
    """An effective value of a tool, with its source."""

    name: str  # the name of the setting, if there is one
    value: Any  # plain JSON
    source: Source = "default"  # `decorator` is any code that created the tool
    key: str | None = None  # the dotted path of the setting, if the source is the settings
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the value as plain JSON, without unknown fields."""
        rest = {"key": self.key, "note": self.note}
        known = {name: text for name, text in rest.items() if text is not None}
        return {"value": self.value, "source": self.source, **known}


def effective(tool: AnyTool, settings: Settings) -> list[Effective]:
    """Return the effective values of a tool under the settings, each with its source.

    Example:
        >>> from leonidas_tools.settings.models import Settings
        >>> from leonidas_tools.tools.tool import Tool
        >>> def search(query: str) -> str: ...
        >>> settings = Settings(tools={"search": {"timeout": "2s"}})
        >>> values = {each.name: each for each in effective(Tool(search, effect="read"), settings)}
        >>> values["timeout"].value, values["timeout"].source, values["timeout"].key
        (2.0, 'settings', 'tools.search.timeout')
        >>> values["effect"].value, values["effect"].source
        ('read', 'decorator')
    """
    values = _View(tool, settings).values()
    if not settings.hidden:
        return list(values)
    secrets = KnownSecrets(settings.hidden)
    return [replace(each, value=secrets(each.value)) for each in values]


_FIELDS = {
    "timeout": "timeout_seconds",
    "deadline": "deadline_seconds",
    "retry_delay": "retry_delay_seconds",
    "retry_longest_delay": "retry_longest_delay_seconds",
    "stale_if_error": "stale_if_error_seconds",
    "filler_after": "filler_after_seconds",
}
"""Names of settings in the metadata and the effective options, if they differ."""
_DEFAULTS = {each.name: each.default for each in fields(ToolMetadata)}


class _View:
    """Yields the resolved options of one tool, each with its source."""

    def __init__(self, tool: AnyTool, settings: Settings) -> None:
        self._tool = tool
        self._all = settings
        self._settings: ToolConfiguration = settings.for_tool(tool.name, tool.origin)
        self._layers = settings.layers(tool.name, tool.origin)
        self._options = effective_options(tool, self._settings, settings.policies)

    def values(self) -> Iterator[Effective]:
        yield self._status()
        for name in ("category", "effect", "priority"):
            yield self._build_option(name)
        yield self._runs()
        for name in ("runs_on", "resources"):
            yield self._build_option(name)
        yield from self._times()
        yield from self._repeats()
        yield self._lane()
        yield from self._approval()
        yield from self._cache()
        yield from self._limits()
        yield self._build_option("max_result_bytes", policy="max_result_bytes")
        for name in ("max_result_tokens", "overflow", "collect"):
            yield self._build_option(name)
        yield from self._secrets()
        yield from self._speech()
        for name in ("fallback_tools", "dependencies", "tags", "description"):
            yield self._build_option(name)

    def _build_option(
        self, name: str, *, note: str | None = None, policy: str | None = None, **other: Any
    ) -> Effective:
        """Return an option with its source: the settings, else the tool, else a policy."""
        value = other["value"] if "value" in other else self._value(name)
        source, key = self._source(name, policy)
        return Effective(name=name, value=_plain(value), source=source, key=key, note=note)

    def _value(self, name: str) -> Any:
        field = _FIELDS.get(name, name)
        if hasattr(self._options, field):
            value = getattr(self._options, field)
        else:
            own = getattr(self._tool.metadata, field, None)
            value = either(getattr(self._settings, name, None), own)
        return value or None if name in _SWITCHED_OFF else value

    def _source(self, name: str, policy: str | None = None) -> tuple[Source, str | None]:
        """Return the source of an option; the last layer of the settings wins."""
        if getattr(self._settings, name, None) is not None:
            for section, layer in reversed(self._layers):
                if name in layer.model_fields_set:
                    return "settings", f"{section}.{name}"
        field = _FIELDS.get(name, name)
        own = getattr(self._tool.metadata, field, None)
        if own is None and policy is not None:
            return self._policy_source(policy)[1:]
        return self._source_of(field, own) if field in _DEFAULTS else "default", None

    def _source_of(self, name: str, own: Any) -> Source:
        if self._tool.origin is not None:
            is_hint = name == "effect" and own is not ToolEffect.ONCE
            if is_hint or (name == "description" and own):
                return "mcp annotation"
            return "default"
        if name == "description":
            return "decorator" if own else "default"
        return "default" if own == _DEFAULTS[name] and not self._tool.states(name) else "decorator"

    def _policy_source(self, path: str) -> tuple[Any, Source, str | None]:
        """Return a setting for all tools, its source, and its key if it is set."""
        node: Any = self._all.policies
        is_set = "policies" in self._all.model_fields_set
        for step in path.split("."):
            if node is None:
                return None, "default", None
            is_set = is_set and step in node.model_fields_set
            node = getattr(node, step)
        return (node, "settings", f"policies.{path}") if is_set else (node, "default", None)

    def _status(self) -> Effective:
        if self._tool.metadata.quarantine is not None:
            why = self._tool.metadata.quarantine
            return Effective(name="status", value="quarantined", note=why)
        if not self._settings.enabled:
            source, key = self._source("enabled")
            return Effective(name="status", value="disabled", source=source, key=key)
        return self._build_option("status")

    def _runs(self) -> Effective:
        name, metadata, runs_on = "runs", self._tool.metadata, self._options.runs_on
        if metadata.origin is not None:
            return Effective(name=name, value=f"on the MCP server {metadata.origin.server!r}")
        if runs_on is not RunsOn.HERE:
            source, key = self._source("runs_on")
            return Effective(name=name, value=f"on {runs_on.value}", source=source, key=key)
        if metadata.cpu_bound:
            return Effective(name=name, value="in a process of its own", source="decorator")
        is_async = kind_of(self._tool.function).startswith("async")
        return Effective(name=name, value="on the event loop" if is_async else "in a thread")

    def _times(self) -> Iterator[Effective]:
        if self._tool.metadata.answers_questions:
            note = "it only waits for another call, which has limits of its own"
            yield Effective(name="timeout", value=None, note=note)
            yield Effective(name="deadline", value=None, note=note)
            return
        yield self._build_option("timeout", policy="default_timeout")
        yield self._build_option("deadline")

    def _repeats(self) -> Iterator[Effective]:
        is_once = self._options.is_once
        note = "only after a RetryableError, because the effect is 'once'" if is_once else None
        yield self._build_option("retry_attempts", note=note)
        if self._options.retry_attempts:
            for name in ("retry_delay", "retry_backoff", "retry_longest_delay", "retry_on"):
                yield self._build_option(name)
        yield self._build_option("on_cancel")
        yield self._build_option("repeat_after_resume")

    def _lane(self) -> Effective:
        lane = self._options.lane
        if lane is not None and is_off(lane):
            note = "calls wait for none"
        elif self._options.is_read:
            note = "reads run in parallel"
        else:
            note = "calls run one after another"
        if lane is None:
            kind, *others = default_lane(self._tool).split(":", 1)
            lane = "its object" if kind == "object" else ":".join([kind, *others])
        return self._build_option("lane", value=lane, note=note)

    def _approval(self) -> Iterator[Effective]:
        subject = subject_of(self._tool.metadata, self._settings)
        risk = subject.risk if self._all.policies.risky == "ask" else ""
        asks = subject.requires_approval or bool(risk)
        yield self._build_option("requires_approval", value=asks, note=risk or None)
        yield self._build_option("untrusted")
        mode, source, key = self._policy_source("mode")
        by_mode = AfterUntrusted.DENY if mode is Mode.AUTONOMOUS else AfterUntrusted.ASK
        yield self._build_option(
            "after_untrusted",
            policy="after_untrusted",
            value=self._options.after_untrusted or by_mode,
        )
        rules = self._all.policies.rule_book()
        names = [rule for rule in rules.for_tool(subject) if rule.holds_in(mode, subject)]
        decides, by = _decision(names)
        note = f"mode {mode.value!r}" + (f", rules: {', '.join(by)}" if by else "")
        yield Effective(name="approval", value=decides, source=source, key=key, note=note)

    def _cache(self) -> Iterator[Effective]:
        if self._options.cache_seconds and not self._options.is_read:
            note = f"nothing is cached, because the effect is {self._options.effect.value!r}"
            yield self._build_option("cache_seconds", value=None, note=note)
            return
        yield self._build_option("cache_seconds")
        if self._options.cache_seconds:
            yield self._build_option("cache_shared")
            yield self._build_option("stale_if_error")

    def _limits(self) -> Iterator[Effective]:
        yield self._build_option("concurrency")
        is_critical = self._options.priority is ToolPriority.CRITICAL
        for name in ("calls_per_turn", "calls_per_minute", "calls_per_session"):
            limit = self._build_option(name)
            if limit.value is not None and is_critical:
                limit = self._build_option(
                    name, value=None, note="no limit for the priority 'critical'"
                )
            yield limit
        for name in (
            "concurrency",
            "calls.per_turn",
            "calls.per_minute",
            "calls.per_session",
            "calls.at_once",
        ):
            value, source, key = self._policy_source(name)
            if value:
                yield Effective(name=f"policies.{name}", value=value, source=source, key=key)
        yield self._build_option(
            "breaker", value=self._options.breaker is not None, policy="breaker"
        )
        loop, source, key = self._policy_source("loop")
        if self._options.polling:
            yield self._build_option("polling")
        refused = None if self._options.polling else loop.refuse_at or None
        yield Effective(name="loop_refused_at", value=refused, source=source, key=key)

    def _secrets(self) -> Iterator[Effective]:
        """Yield the custom parameters, masked, and the names of secrets."""
        parameters = display_parameters(self._all, self._settings)
        key = next((k for k, s in reversed(self._layers) if s.custom_parameters), None)
        source: Source = "default" if key is None else "settings"
        path = None if key is None else f"{key}.custom_parameters"
        yield Effective(name="custom_parameters", value=parameters, source=source, key=path)
        redaction = self._tool.redaction
        declared = sorted(redaction.names)
        hidden, own = self._all.hidden, self._settings.custom_parameters
        named = [
            name
            for name in parameters
            if (is_secret_name(name) or str(own[name]) in hidden) and name not in declared
        ]
        everything = ["all arguments"] if redaction.everything else []
        names = [*declared, *named, *everything]
        source = "decorator" if redaction.declares else source if named else "default"
        yield Effective(name="secrets", value=names, source=source)

    def _speech(self) -> Iterator[Effective]:
        yield self._build_option("behavior")
        scheduling = scheduling_of(self._tool, self._settings)
        yield self._build_option("scheduling", value={} if scheduling is None else scheduling)
        after = self._build_option("filler_after")
        yield after
        if after.value:
            yield self._build_option("filler")


_SWITCHED_OFF = frozenset({
    "deadline", "concurrency", "cache_seconds", "stale_if_error", "calls_per_turn",
    "calls_per_minute", "calls_per_session", "max_result_tokens", "filler_after",
})  # fmt: skip
"""Options for which `False` means `off`, and not no."""


def _decision(rules: Iterable[Rule]) -> tuple[str, list[str]]:
    """Return the rules' decision about any call, and the names of the rules that apply."""
    by: list[Rule] = []
    for rule in rules:
        if rule.lifts is not None:
            continue
        by.append(rule)
        if rule.is_global:
            break
    names = [rule.name for rule in by]
    if not by:
        return "runs", names
    if len({rule.decide for rule in by}) == 1 and by[-1].is_global:
        return _MEANS[by[0].decide.value], names
    return "depends on the arguments or the user", names


_MEANS = {"allow": "runs", "audit": "runs", "ask": "asks first", "deny": "is denied"}


def _plain(value: Any) -> Any:
    """Return a value of the settings or of the metadata as plain JSON."""
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Enum):
        return value.value.lower()
    if is_dataclass(value) and not isinstance(value, type):
        return {key: _plain(each) for key, each in asdict(value).items() if each is not None}
    return list(value) if isinstance(value, tuple | set | frozenset) else value
