"""Report changed tools and ineffective settings of a server."""

from __future__ import annotations

import difflib
import json
import logging
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leonidas_tools.redaction.visible import revealed, visible_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.mcp.trust.pins import Pin, ToolDefinition
    from leonidas_tools.settings.problem import Finding

logger = visible_logger(__name__)
_MAX_WARNINGS = 20
"""Most warnings of one kind for each listing: a server may list any number of tools."""
_MAX_PAIRS = 250_000
"""Most pairs of lines that are compared: the time of `difflib` grows faster than their number."""


@dataclass(kw_only=True, slots=True)
class ListingReport:
    """The findings of one listing."""

    findings: list[Finding] = field(default_factory=list)  # settings without effect
    left_out: dict[str, str] = field(default_factory=dict)  # reasons for dropped tools, by name
    # names of the tools that have changed since the previous listing
    news: list[str] = field(default_factory=list)
    # pins of the tools that differ from their trusted definitions, by name
    changed: dict[str, Pin] = field(default_factory=dict)
    # those tools as plain JSON, made in a thread: definitions may be long
    changes: list[dict[str, Any]] = field(default_factory=list)
    denies: bool = True  # whether changed tools are denied, not only reported
    # names of the tools with invisible characters in their descriptions
    unseen: list[str] = field(default_factory=list)
    # names of the tools that were added to a known server
    new: list[str] = field(default_factory=list)
    pins_error: str | None = None  # reason why the pins cannot be read
    unknown: list[str] = field(default_factory=list)  # tools that are not used because of this

    @property
    def quarantined(self) -> list[str]:
        """Return the names of the tools in quarantine."""
        return [*(self.changed if self.denies else ()), *self.unknown]

    def compare(self, changed: dict[str, Pin]) -> None:
        """Set the changed tools, and describe the differences. This may take long."""
        self.changed = changed
        self.changes = [
            {"tool": name, "changed": fields_of(pin), "diff": diff_of(pin)}
            for name, pin in changed.items()
        ]

    def find_news(self, before: ListingReport) -> None:
        """Record the changes since the previous listing."""
        self.news = [name for name, pin in self.changed.items() if before.changed.get(name) != pin]

    def remember(self, before: ListingReport, tool: str, key: str) -> None:
        """Repeat the reasons why an unchanged tool cannot be used."""
        if tool in before.left_out:
            self.left_out[tool] = before.left_out[tool]
        self.findings += [finding for finding in before.findings if finding.key == key]

    def log(self, server: str, before: ListingReport) -> None:
        """Log the findings that are new since the previous listing."""
        for finding in self.findings:
            if finding not in before.findings:
                level = logging.ERROR if finding.severity == "error" else logging.WARNING
                logger.log(level, "In the settings, %s", finding)
        warn_of_few(
            server,
            [
                f": the tool {name!r} is left out: {why}"
                for name, why in self.left_out.items()
                if before.left_out.get(name) != why
            ],
        )
        warn_of_few(
            server,
            [
                f": invisible characters are removed from the description of {name!r}"
                for name in self.unseen
            ],
        )
        done = ", and is not run" if self.denies else ""
        news = set(self.news)
        warn_of_few(
            server,
            [
                f": the tool {each['tool']!r} has changed since it was first used "
                f"({', '.join(each['changed'])}){done}; "
                f"`leonidas mcp trust {shlex.quote(server)}` shows how"
                for each in self.changes
                if each["tool"] in news
            ],
        )
        if self.new:
            names = ", ".join(map(repr, self.new[:_MAX_WARNINGS]))
            more = f" and {len(self.new) - _MAX_WARNINGS} more" if self.new[_MAX_WARNINGS:] else ""
            logger.warning("MCP server %r has new tools: %s%s", server, names, more)
        if self.pins_error is not None and self.pins_error != before.pins_error:
            done = "none of its tools is used: " if self.unknown else ""
            logger.error("MCP server %r: %s%s", server, done, self.pins_error)

    def status(self) -> dict[str, Any]:
        """Return the findings as plain JSON."""
        unknown = [{"tool": name, "why": self.pins_error} for name in self.unknown]
        findings = {
            "quarantined": [*(self.changes if self.denies else []), *unknown],
            "changed": [] if self.denies else self.changes,
            "left_out": [{"tool": name, "why": why} for name, why in self.left_out.items()],
            "problems": [str(finding) for finding in self.findings],
        }
        return {key: value for key, value in findings.items() if value}


def warn_of_few(server: str, warnings: Sequence[str]) -> None:
    """Log the first warnings of one kind, and the number of the others."""
    for warning in warnings[:_MAX_WARNINGS]:
        logger.warning("MCP server %r%s", server, warning)
    if len(warnings) > _MAX_WARNINGS:
        more = len(warnings) - _MAX_WARNINGS
        logger.warning("MCP server %r: %d more like the last one", server, more)


def fields_of(pin: Pin) -> list[str]:
    """Return the names of the changed fields of a tool definition."""
    return [] if pin.waiting is None else pin.waiting.changed_from(pin.trusted)


def diff_of(pin: Pin) -> str:
    """Return a line diff of a tool definition, with invisible characters escaped.

    In a long definition, all lines from the first to the last changed one count as changed.
    """
    before, now = _lines(pin.trusted), _lines(pin.waiting or pin.trusted)
    if len(before) * len(now) <= _MAX_PAIRS:
        return "\n".join(difflib.unified_diff(before, now, "trusted", "now", lineterm="", n=1))
    head = _count_common_lines(before, now)
    tail = _count_common_lines(before[head:][::-1], now[head:][::-1])
    old, new = (lines[head : len(lines) - tail] for lines in (before, now))
    at = f"@@ -{head + 1},{len(old)} +{head + 1},{len(new)} @@"
    changed = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    return "\n".join(["--- trusted", "+++ now", at, *changed]) if changed else ""


def _count_common_lines(some: Sequence[str], others: Sequence[str]) -> int:
    """Return how many lines at the beginning are alike."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(some), len(others)))


def _lines(definition: ToolDefinition) -> list[str]:
    schema = json.dumps(definition.input_schema, indent=1, sort_keys=True, ensure_ascii=False)
    effect = f"{definition.effect}, destructive" if definition.destructive else definition.effect
    text = f"{definition.description}\neffect: {effect}\ninput schema: {schema}"
    return revealed(text).splitlines()
