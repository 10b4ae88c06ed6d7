"""The effective options of a tool, each value with its source."""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.policies.lane import default_lane
from leonidas_tools.redaction import KnownSecrets, is_secret_name
from leonidas_tools.rules.rule import Mode
from leonidas_tools.rules.subject import subject_of
from leonidas_tools.settings.effective import effective_options
from leonidas_tools.settings.shown import display_parameters
from leonidas_tools.tools.metadata import (
    OPTIONS,
    AfterUntrusted,
    RunsOn,
    ToolEffect,
    ToolPriority,
    is_off,
)
from leonidas_tools.tools.tool import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.settings.models import Settings, ToolConfiguration
    from leonidas_tools.tools.metadata import Option
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


_HIDDEN = frozenset({"status", "name", "secrets", "cpu_bound", "version", "facts", "undo"})
"""Options that are shown in another form, or that are part of the definition of the tool."""
_CALL_LIMITS = ("calls_per_turn", "calls_per_minute", "calls_per_session")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Remark:
    """The value of an option, and a note about it."""

    value: Any = None
    note: str | None = None


class _View:
    """Yields the resolved options of one tool, each with its source."""

    def __init__(self, tool: AnyTool, settings: Settings) -> None:
        self._tool = tool
        self._settings = settings
        self._configured: ToolConfiguration = settings.for_tool(tool.name, tool.origin)
        self._layers = settings.layers(tool.name, tool.origin)
        self._options = effective_options(tool, self._configured, settings.policies)

    def values(self) -> Iterator[Effective]:
        yield self._resolve_status()
        yield self._resolve_place()
        remarks = self._find_remarks()
        for option in OPTIONS.values():
            condition = option.shown_with
            if option.name in _HIDDEN or (condition and not getattr(self._options, condition)):
                continue
            remark = _Remark(value=getattr(self._options, option.name))
            yield self._build_option(option, remarks.get(option.name, remark))
        yield self._resolve_approval()
        if self._options.cache_seconds:
            source, key = self._find_setting("cache_shared")
            shared = bool(self._configured.cache_shared)
            yield Effective(name="cache_shared", value=shared, source=source, key=key)
        yield from self._resolve_limits()
        yield from self._resolve_secrets()

    def _build_option(self, option: Option, remark: _Remark) -> Effective:
        """Return an option with its source: the settings, else the tool, else a policy."""
        source, key = self._find_source(option)
        return Effective(
            name=option.key or option.name,
            value=_plain(remark.value),
            source=source,
            key=key,
            note=remark.note,
        )

    def _find_remarks(self) -> dict[str, _Remark]:
        """Return the options whose value needs a note, or depends on others."""
        options, subject = self._options, subject_of(self._tool.metadata, self._configured)
        risk = subject.risk if self._settings.policies.risky == "ask" else ""
        asks = subject.requires_approval or bool(risk)
        is_autonomous = self._settings.policies.mode is Mode.AUTONOMOUS
        by_mode = AfterUntrusted.DENY if is_autonomous else AfterUntrusted.ASK
        found = {
            "lane": self._describe_lane(),
            "requires_approval": _Remark(value=asks, note=risk or None),
            "after_untrusted": _Remark(value=options.after_untrusted or by_mode),
        }
        if self._tool.metadata.answers_questions:
            waits = _Remark(note="it only waits for another call, which has its own limits")
            found |= {"timeout_seconds": waits, "deadline_seconds": waits}
        if options.is_once:
            note = "only after a RetryableError, because the effect is 'once'"
            found["retry_attempts"] = _Remark(value=options.retry_attempts, note=note)
        if options.cache_seconds and not options.is_read:
            note = f"nothing is cached, because the effect is {options.effect.value!r}"
            found["cache_seconds"] = _Remark(note=note)
        if options.priority is ToolPriority.CRITICAL:
            unlimited = _Remark(note="no limit for the priority 'critical'")
            found |= {name: unlimited for name in _CALL_LIMITS if getattr(options, name)}
        return found

    def _find_source(self, option: Option) -> tuple[Source, str | None]:
        """Return the source of an option."""
        source, key = self._find_setting(option.key)
        if key is not None:
            return source, key
        name, own = option.name, getattr(self._tool.metadata, option.name)
        if self._tool.origin is not None:
            is_hint = name == "effect" and own is not ToolEffect.ONCE
            if is_hint or (name == "description" and own):
                return "mcp annotation", None
        elif self._tool.states(name) or own != option.default:
            return "decorator", None
        if option.policy is not None:
            return self._find_policy(option.policy)[1:]
        return "default", None

    def _find_setting(self, name: str | None) -> tuple[Source, str | None]:
        """Return the last layer of the settings that sets an option."""
        if name is not None and getattr(self._configured, name) is not None:
            for section, layer in reversed(self._layers):
                if name in layer.model_fields_set:
                    return "settings", f"{section}.{name}"
        return "default", None

    def _find_policy(self, path: str) -> tuple[Any, Source, str | None]:
        """Return a setting for all tools, its source, and its key if it is set."""
        node: Any = self._settings.policies
        is_set = "policies" in self._settings.model_fields_set
        for step in path.split("."):
            if node is None:
                return None, "default", None
            is_set = is_set and step in node.model_fields_set
            node = getattr(node, step)
        return (node, "settings", f"policies.{path}") if is_set else (node, "default", None)

    def _resolve_status(self) -> Effective:
        """Return the status, which `enabled` and a quarantine override."""
        if self._tool.metadata.quarantine is not None:
            why = self._tool.metadata.quarantine
            return Effective(name="status", value="quarantined", note=why)
        if not self._configured.enabled:
            source, key = self._find_setting("enabled")
            return Effective(name="status", value="disabled", source=source, key=key)
        return self._build_option(OPTIONS["status"], _Remark(value=self._options.status))

    def _resolve_place(self) -> Effective:
        name, metadata, runs_on = "runs", self._tool.metadata, self._options.runs_on
        if metadata.origin is not None:
            return Effective(name=name, value=f"on the MCP server {metadata.origin.server!r}")
        if runs_on is not RunsOn.HERE:
            source, key = self._find_source(OPTIONS["runs_on"])
            return Effective(name=name, value=f"on {runs_on.value}", source=source, key=key)
        if metadata.cpu_bound:
            return Effective(name=name, value="in a process of its own", source="decorator")
        is_async = kind_of(self._tool.function).startswith("async")
        return Effective(name=name, value="on the event loop" if is_async else "in a thread")

    def _describe_lane(self) -> _Remark:
        lane = self._options.lane
        if lane is not None and is_off(lane):
            note = "calls wait for none"
        elif self._options.is_read:
            note = "reads run in parallel"
        else:
            note = "calls run one after another"
        if lane is None:
            lane = default_lane(self._tool)
            lane = "its object" if lane.startswith("object:") else lane
        return _Remark(value=lane, note=note)

    def _resolve_approval(self) -> Effective:
        subject = subject_of(self._tool.metadata, self._configured)
        mode, source, key = self._find_policy("mode")
        rules = self._settings.policies.rule_book()
        holding = [rule for rule in rules.for_tool(subject) if rule.holds_in(mode, subject)]
        decision, names = _summarize(holding)
        note = f"mode {mode.value!r}" + (f", rules: {', '.join(names)}" if names else "")
        return Effective(name="approval", value=decision, source=source, key=key, note=note)

    def _resolve_limits(self) -> Iterator[Effective]:
        for name in (
            "concurrency",
            "calls.per_turn",
            "calls.per_minute",
            "calls.per_session",
            "calls.at_once",
        ):
            value, source, key = self._find_policy(name)
            if value:
                yield Effective(name=f"policies.{name}", value=value, source=source, key=key)
        loop, source, key = self._find_policy("loop")
        refused = None if self._options.polling else loop.refuse_at or None
        yield Effective(name="loop_refused_at", value=refused, source=source, key=key)

    def _resolve_secrets(self) -> Iterator[Effective]:
        """Yield the custom parameters, masked, and the names of secrets."""
        parameters = display_parameters(self._settings, self._configured)
        key = next((k for k, s in reversed(self._layers) if s.custom_parameters), None)
        source: Source = "default" if key is None else "settings"
        path = None if key is None else f"{key}.custom_parameters"
        yield Effective(name="custom_parameters", value=parameters, source=source, key=path)
        redaction = self._tool.redaction
        declared = sorted(redaction.names)
        hidden, own = self._settings.hidden, self._configured.custom_parameters
        named = [
            name
            for name in parameters
            if (is_secret_name(name) or str(own[name]) in hidden) and name not in declared
        ]
        everything = ["all arguments"] if redaction.everything else []
        names = [*declared, *named, *everything]
        source = "decorator" if redaction.declares else source if named else "default"
        yield Effective(name="secrets", value=names, source=source)


def _summarize(rules: Iterable[Rule]) -> tuple[str, list[str]]:
    """Return the rules' decision about any call, and the names of the rules that apply."""
    deciding: list[Rule] = []
    for rule in rules:
        if rule.lifts is not None:
            continue
        deciding.append(rule)
        if rule.is_global:
            break
    names = [rule.name for rule in deciding]
    if not deciding:
        return "runs", names
    if len({rule.decide for rule in deciding}) == 1 and deciding[-1].is_global:
        return _OUTCOMES[deciding[0].decide.value], names
    return "depends on the arguments or the user", names


_OUTCOMES = {"allow": "runs", "audit": "runs", "ask": "asks first", "deny": "is denied"}


def _plain(value: Any) -> Any:
    """Return a value of the settings or of the metadata as plain JSON."""
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Enum):
        return value.value.lower()
    if is_dataclass(value) and not isinstance(value, type):
        return {key: _plain(each) for key, each in asdict(value).items() if each is not None}
    return list(value) if isinstance(value, tuple | set | frozenset) else value
