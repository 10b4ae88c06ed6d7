"""Check settings against the registered tools, and find those without an effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from leonidas_tools.approvals.wording import places_in
from leonidas_tools.policies.cache import stored_fingerprint
from leonidas_tools.rules.conditions import steps_of
from leonidas_tools.rules.rule import REQUIRES_APPROVAL, Mode
from leonidas_tools.rules.subject import Subject, subject_of
from leonidas_tools.settings.effective import effective_options
from leonidas_tools.settings.explain import closest
from leonidas_tools.settings.problem import Finding, Severity
from leonidas_tools.tools.metadata import guess_category
from leonidas_tools.tools.tool import OnCancel, Overflow, Tool, ToolBehavior

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.settings.effective import EffectiveOptions
    from leonidas_tools.settings.models import Settings
    from leonidas_tools.settings.tool_configuration import ToolConfiguration, ToolOverrides

Tools: TypeAlias = Mapping[str, Tool[..., Any]]
_ANY = "*"


def check_against(
    settings: Settings, known_tools: Tools, *, more_may_come: bool | None = None
) -> list[Finding]:
    """Return the settings that have no effect, or less than they say, for these tools.

    With `more_may_come`, an unknown tool name is a warning, else an error. By default, it is true
    if an MCP server is enabled, which may list more tools.

    Example:
        >>> from leonidas_tools.settings.models import Settings
        >>> settings = Settings(tools={"serach": {"timeout": 2}})
        >>> def search(query: str) -> str: ...
        >>> print(*check_against(settings, {"search": Tool(search)}))
        error: tools.serach: there is no such tool; did you mean 'search'?
    """
    if more_may_come is None:
        more_may_come = any(server.enabled for server in settings.mcp_servers.values())
    names = _Names(known_tools, more_may_come=more_may_come)
    findings = [*_environment(settings), *_fallbacks("defaults", settings.defaults, names)]
    for name, configuration in settings.tools.items():
        key = f"tools.{name}"
        findings += _fallbacks(key, configuration, names)
        tool = known_tools.get(name)
        if tool is None:
            findings += names.unknown(key, name)
            continue
        findings += _category(key, configuration)
        findings += _parameters(key, configuration, tool)
        findings += _contradictions(key, name, settings, tool)
    for index, rule in enumerate(settings.monitoring.alerts):
        if rule.tool is not None and rule.tool not in known_tools:
            findings += names.unknown(f"monitoring.alerts.{index}.tool", rule.tool)
    findings += check_rules(settings, known_tools, more_may_come=more_may_come)
    return [replace(each, message=settings.masked(each.message)) for each in findings]


class _Names:
    """Known names, and the message for an unknown one."""

    def __init__(self, known_tools: Tools, *, more_may_come: bool) -> None:
        self._known = known_tools
        self._more_may_come = more_may_come

    def unknown(self, key: str, *names: str) -> Iterator[Finding]:
        for name in names:
            if name in self._known:
                continue
            suggestion = closest(name, list(self._known))
            hint = f"; did you mean {suggestion!r}?" if suggestion else ": remove it"
            if self._more_may_come:
                hint += " (an MCP server may still add it)"
            what = "there is no such tool" if key.endswith(name) else f"there is no tool {name!r}"
            severity: Literal["error", "warning"] = "warning" if self._more_may_come else "error"
            yield Finding(severity=severity, key=key, message=what + hint)


def _layers(key: str, configuration: ToolConfiguration) -> Iterable[tuple[str, ToolOverrides]]:
    yield key, configuration
    for environment, overrides in configuration.environment_specific.items():
        yield f"{key}.environment_specific.{environment}", overrides


def _fallbacks(key: str, configuration: ToolConfiguration, names: _Names) -> Iterator[Finding]:
    for layer, overrides in _layers(key, configuration):
        yield from names.unknown(f"{layer}.fallback_tools", *(overrides.fallback_tools or ()))


def _category(key: str, configuration: ToolConfiguration) -> Iterator[Finding]:
    """Yield categories that look like misspelled known ones."""
    for layer, overrides in _layers(key, configuration):
        near = None if overrides.category is None else guess_category(overrides.category)
        if near is not None:
            message = (
                f"{overrides.category!r} is not a known category; did you mean {near.value!r}?"
            )
            yield Finding(severity="warning", key=f"{layer}.category", message=message)


def find_undescribed(settings: Settings, known_tools: Tools) -> Iterator[Finding]:
    """Yield a warning for each tool without a description: the model gets only its name."""
    for name, tool in known_tools.items():
        said = tool.metadata.description or settings.for_tool(name, tool.origin).description or ""
        if not said.strip():
            message = "has no description for the model: write a docstring, or set one here"
            yield Finding(severity="warning", key=f"tools.{name}.description", message=message)


def _environment(settings: Settings) -> Iterator[Finding]:
    """Yield a warning if nothing is set for the environment."""
    servers = settings.mcp_servers.values()
    sections = [settings.defaults, *settings.tools.values()]
    sections += [tool for server in servers for tool in server.tools.values()]
    known = sorted({name for section in sections for name in section.environment_specific})
    name = settings.environment
    if name in known or name == type(settings).model_fields["environment"].default:
        return
    suggestion = closest(name, known)
    there = f"there are {', '.join(map(repr, known))}" if known else "there is none"
    hint = f"did you mean {suggestion!r}?" if suggestion else there
    message = f"{name!r} matches no section under environment_specific; {hint}"
    yield Finding(severity="warning", key="environment", message=message)


def _parameters(
    key: str, configuration: ToolConfiguration, tool: Tool[..., Any]
) -> Iterator[Finding]:
    """Yield custom parameters that no tool reads."""
    known = list(tool.metadata.parameters.get("properties", {}))
    if tool.signature.context_parameter is not None:
        yield from _misspelt(key, configuration, [*known, *_read_by(tool)])
        return
    for layer, overrides in _layers(key, configuration):
        for name in overrides.custom_parameters:
            if name in known:
                continue
            suggestion = closest(name, known)
            hint = f"did you mean {suggestion!r}?" if suggestion else "remove it"
            message = f"the tool has no such parameter, and takes no ToolContext to read it: {hint}"
            yield Finding(
                severity="error", key=f"{layer}.custom_parameters.{name}", message=message
            )


def _misspelt(
    key: str, configuration: ToolConfiguration, known: Sequence[str]
) -> Iterator[Finding]:
    """Yield custom parameters that look misspelled; a tool with a context may read any."""
    for layer, overrides in _layers(key, configuration):
        for name in overrides.custom_parameters:
            suggestion = None if name in known else closest(name, known)
            if suggestion is not None:
                message = f"the tool has no such parameter; did you mean {suggestion!r}?"
                path = f"{layer}.custom_parameters.{name}"
                yield Finding(severity="warning", key=path, message=message)


def _read_by(tool: Tool[..., Any]) -> list[str]:
    """Return the names that the code of a tool may read from `ctx.parameters`."""
    code = getattr(tool.function, "__code__", None)
    if code is None or "parameters" not in code.co_names:
        return []
    return [each for each in code.co_consts if isinstance(each, str) and each.isidentifier()]


def _contradictions(
    key: str, name: str, settings: Settings, tool: Tool[..., Any]
) -> Iterator[Finding]:
    """Yield settings of the active environment that disable other settings."""
    holds = settings.for_tool(name, tool.origin)
    options = effective_options(tool, holds, settings.policies)
    said, timeout, deadline = holds.scheduling, options.timeout_seconds, options.deadline_seconds
    if options.behavior is ToolBehavior.BLOCKING and said is not None and (said.ok or said.error):
        message = (
            "has no effect with behavior 'blocking', except for models without blocking calls: "
            "remove one of them"
        )
        yield Finding(severity="warning", key=f"{key}.scheduling", message=message)
    if holds.on_cancel is OnCancel.UNDO and not (tool.undo or tool.signature.context_parameter):
        message = (
            "the tool has no undo, and takes no ToolContext to register one: write 'stop' instead"
        )
        yield Finding(severity="error", key=f"{key}.on_cancel", message=message)
    yield from _caching(key, options)
    yield from _sharing(key, options, settings)
    if deadline and timeout and deadline < timeout:
        message = (
            f"{deadline:g} s end the call before its timeout of {timeout:g} s: "
            "lower the timeout, or raise the deadline"
        )
        yield Finding(severity="warning", key=f"{key}.deadline", message=message)
    if holds.retry_attempts and options.is_once:
        message = (
            "a tool with effect 'once' is retried only after a RetryableError: declare it 'read' "
            "or 'idempotent' if repeating it is safe"
        )
        yield Finding(severity="warning", key=f"{key}.retry_attempts", message=message)


def _caching(key: str, options: EffectiveOptions) -> Iterator[Finding]:
    if options.cache_seconds and not options.is_read:
        message = (
            f"only tools with effect 'read' are cached, and the effect is {options.effect.value!r}"
            ": declare it 'read' if it changes nothing, or remove this"
        )
        yield Finding(severity="error", key=f"{key}.cache_seconds", message=message)
    if options.settings.stale_if_error and not options.cache_seconds:
        message = "has no effect without cache_seconds: set that too"
        yield Finding(severity="error", key=f"{key}.stale_if_error", message=message)


def _sharing(key: str, options: EffectiveOptions, settings: Settings) -> Iterator[Finding]:
    """Yield a finding if `cache_shared` has no effect for a tool."""
    tool, holds = options.tool, options.settings
    if not holds.cache_shared:
        return
    if not options.cache_seconds:
        if not settings.defaults.cache_shared:  # which apply only to tools with a cache
            message = "has no effect without cache_seconds: set that too"
            yield Finding(severity="error", key=f"{key}.cache_shared", message=message)
        return
    if not settings.store.enabled:
        message = "has no effect without a store: set store.enabled"
    elif options.overflow is Overflow.SPILL:
        message = "has no effect: handles of long results belong to their session"
    elif stored_fingerprint(tool, holds.custom_parameters, settings) is None:
        message = "has no effect: its settings have a secret that is short enough to guess"
    else:
        return
    yield Finding(severity="warning", key=f"{key}.cache_shared", message=message)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """The properties of a tool that rules match, and the names of its parameters."""

    subject: Subject
    parameters: Collection[str]


def check_rules(
    settings: Settings, known_tools: Mapping[str, Tool[..., Any]], *, more_may_come: bool
) -> list[Finding]:
    """Return the rules, or parts of them, that can never apply or decide."""
    if not settings.policies.rules and not settings.policies.always:
        return []
    known = [
        _Known(
            subject=subject_of(tool.metadata, settings.for_tool(name, tool.origin)),
            parameters=tool.metadata.parameters.get("properties", {}),
        )
        for name, tool in known_tools.items()
    ]
    return list(_RuleCheck(settings, known, more_may_come=more_may_come).findings())


class _RuleCheck:
    def __init__(self, settings: Settings, known: list[_Known], *, more_may_come: bool) -> None:
        self._settings = settings
        self._known = known
        self._book = settings.policies.rule_book()
        self._unknown: Severity = "warning" if more_may_come else "error"

    def findings(self) -> Iterator[Finding]:
        policies = self._settings.policies
        for index, each in enumerate(policies.rules):
            yield from self._rule(f"policies.rules.{index}", each.rule())
        questions = [REQUIRES_APPROVAL.name, *(rule.name for rule in policies.rules)]
        for name, always in policies.always.items():
            key = f"policies.always.{name}"
            yield from self._rule(key, always.rule(name))
            if always.question not in questions:
                message = f"there is no rule {always.question!r}{_hint(always.question, questions)}"
                yield Finding(severity="error", key=f"{key}.question", message=message)
            else:
                yield from self._find_outdated(key, always.rule(name))

    def _find_outdated(self, key: str, rule: Rule) -> Iterator[Finding]:
        named = [each.subject for each in self._known if rule.names(each.subject)]
        if named and all(rule.is_outdated(subject) for subject in named):
            message = "it was about another definition of the tool: the user is asked again"
            yield Finding(severity="warning", key=f"{key}.fingerprint", message=message)

    def _rule(self, key: str, rule: Rule) -> Iterator[Finding]:
        unknown = [*self._names(key, rule)]
        yield from unknown
        fitting = [known for known in self._known if rule.names(known.subject)]
        if fitting:
            yield from self._parameters(key, rule, fitting)
            yield from self._shadow(key, rule, [known.subject for known in fitting])
        elif not unknown:
            message = "no tool meets all conditions of this rule: it never applies"
            yield Finding(severity=self._unknown, key=key, message=message)

    def _names(self, key: str, rule: Rule) -> Iterator[Finding]:
        subjects = [known.subject for known in self._known]
        tools = [name for subject in subjects for name in subject.all_names]
        tags = {tag for subject in subjects for tag in subject.tags}
        yield from _find_unknown(f"{key}.tools", "tool", rule.tools, tools, self._unknown)
        yield from _find_unknown(f"{key}.tags", "tool with the tag", rule.tags, tags, self._unknown)
        servers = list(self._settings.mcp_servers)
        yield from _find_unknown(f"{key}.servers", "MCP server", rule.servers, servers, "error")

    def _parameters(self, key: str, rule: Rule, fitting: list[_Known]) -> Iterator[Finding]:
        parameters = {name for known in fitting for name in known.parameters}
        for path in rule.when:
            steps = steps_of(path)
            without = [each.subject for each in fitting if not each.subject.describes(steps)]
            if len(without) == len(fitting):
                first = steps[0]
                what = f"a parameter {first!r}{_hint(first, parameters)}"
                if first in parameters or first == _ANY:
                    what = f"a value at {path!r}"
                message = f"none of its tools has {what}"
                yield Finding(severity="error", key=f"{key}.when.{path}", message=message)
                continue
            for subject in without:
                if rule.holds_back and rule.names_in_full(subject):
                    message = (
                        f"{subject.names[0]!r} has no value at {path!r}: the rule always holds"
                    )
                    yield Finding(severity="warning", key=f"{key}.when.{path}", message=message)
        for path in places_in(rule.message or ""):
            first = path.partition(".")[0].partition("[")[0]
            if first not in parameters and path != "count":
                message = f"none of its tools has a parameter {first!r}{_hint(first, parameters)}"
                yield Finding(severity="warning", key=f"{key}.message", message=message)

    def _shadow(self, key: str, rule: Rule, subjects: list[Subject]) -> Iterator[Finding]:
        """Yield a finding if other rules always decide before this rule."""
        before: list[str] = []
        for subject in subjects:
            for mode in Mode:
                if rule.holds_in(mode, subject):
                    decides = self._decides_before(rule, subject, mode)
                    if decides is None:
                        return
                    before.append(decides)
        if before:
            names = " and ".join(repr(name) for name in dict.fromkeys(before))
            message = (
                f"it never applies, since {names} decides first: "
                "raise its priority or remove one of them"
            )
            yield Finding(severity="warning", key=key, message=message)

    def _decides_before(self, rule: Rule, subject: Subject, mode: Mode) -> str | None:
        if rule.lifts is not None:
            return None
        for other in self._book.for_tool(subject):
            if other.name == rule.name and other.tier is rule.tier:
                return None
            if other.is_global and other.lifts is None and other.holds_in(mode, subject):
                name: str = other.name
                return name
        return None


def _find_unknown(
    key: str, what: str, patterns: Iterable[str], known: Collection[str], severity: Severity
) -> Iterator[Finding]:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            message = f"there is no {what} {pattern!r}{_hint(pattern, known)}"
            yield Finding(severity=severity, key=key, message=message)


def _hint(name: str, known: Collection[str]) -> str:
    suggestion = closest(name, list(known))
    return f"; did you mean {suggestion!r}?" if suggestion else ""
