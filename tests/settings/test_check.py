"""Settings that would silently do nothing."""

import dataclasses
from typing import Any

import pytest

from leonidas_tools.calls.context import ToolContext
from leonidas_tools.settings import document
from leonidas_tools.settings.check import Finding, check_against
from leonidas_tools.settings.load import load, refusal
from leonidas_tools.tools.tool import Tool, tool

from .test_json_schema import CONFIG


@tool(effect="read")
def search(query: str) -> str:
    """Searches."""
    return query


@tool(behavior="BLOCKING")
def book(city: str, ctx: ToolContext) -> str:
    """Books."""
    return city


@tool
def play(ctx: ToolContext) -> Any:
    """Plays."""
    return ctx.parameters.get("station")


TOOLS: dict[str, Tool[..., Any]] = {"search": search, "book": book, "play": play}
SERVERS = {"time": {"command": "x", "tools": {"now": {"timeout": 1}}}}


@pytest.mark.parametrize(
    ("settings", "severity", "key", "message"),
    [
        ({"tools": {"serch": {}}}, "error", "tools.serch", "did you mean 'search'?"),
        ({"tools": {"xyz": {}}}, "error", "tools.xyz", "there is no such tool: remove it"),
        (
            {"tools": {"now": {}}, "mcp_servers": SERVERS},
            "warning",
            "tools.now",
            "an MCP server may still add it",
        ),
        (
            {"tools": {"search": {"fallback_tools": ["serch"]}}},
            "error",
            "tools.search.fallback_tools",
            "there is no tool 'serch'; did you mean 'search'?",
        ),
        (
            {"defaults": {"environment_specific": {"production": {"fallback_tools": ["x"]}}}},
            "error",
            "defaults.environment_specific.production.fallback_tools",
            "there is no tool 'x'",
        ),
        (
            {"tools": {"search": {"custom_parameters": {"qeury": "x"}}}},
            "error",
            "tools.search.custom_parameters.qeury",
            "did you mean 'query'?",
        ),
        (
            {"tools": {"play": {"custom_parameters": {"staton": "x"}}}},
            "warning",
            "tools.play.custom_parameters.staton",
            "did you mean 'station'?",
        ),
        (
            {"tools": {"book": {"custom_parameters": {"ciyt": "x"}}}},
            "warning",
            "tools.book.custom_parameters.ciyt",
            "did you mean 'city'?",
        ),
        (
            {
                "environment": "prodution",
                "defaults": {"environment_specific": {"production": {"timeout": 1}}},
            },
            "warning",
            "environment",
            "matches no section under environment_specific; did you mean 'production'?",
        ),
        (
            {"environment": "staging"},
            "warning",
            "environment",
            "there is none",
        ),
        (
            {"tools": {"book": {"scheduling": "silent"}}},
            "warning",
            "tools.book.scheduling",
            "blocking",
        ),
        (
            {"tools": {"search": {"on_cancel": "undo"}}},
            "error",
            "tools.search.on_cancel",
            "the tool has no undo",
        ),
        (
            {"tools": {"search": {"deadline": 1, "timeout": 2}}},
            "warning",
            "tools.search.deadline",
            "1 s end the call before its timeout of 2 s",
        ),
        (
            {"tools": {"search": {"cache_shared": True}}},
            "error",
            "tools.search.cache_shared",
            "has no effect without cache_seconds",
        ),
        (
            {"tools": {"search": {"cache_shared": True, "cache_seconds": 5}}},
            "warning",
            "tools.search.cache_shared",
            "has no effect without a store",
        ),
        (
            {
                "store": {"enabled": True},
                "defaults": {"cache_shared": True},
                "tools": {"search": {"cache_seconds": 5, "overflow": "spill"}},
            },
            "warning",
            "tools.search.cache_shared",
            "handles of long results belong to their session",
        ),
        (
            {
                "store": {"enabled": True},
                "tools": {"search": {"cache_shared": True, "cache_seconds": 5}},
                "toolboxes": [{"weather": {"api_key": "4711"}}],
            },
            "warning",
            "tools.search.cache_shared",
            "a secret that is short enough to guess",
        ),
        (
            {"tools": {"book": {"retry_attempts": 2}}},
            "warning",
            "tools.book.retry_attempts",
            "RetryableError",
        ),
        (
            {
                "monitoring": {
                    "alerts": [{"name": "a", "metric": "active", "tool": "x", "above": 1}]
                }
            },
            "error",
            "monitoring.alerts.0.tool",
            "there is no tool 'x'",
        ),
    ],
)
def test_what_would_do_nothing_is_found(settings, severity, key, message):
    (finding,) = check_against(load(settings), TOOLS)
    assert (finding.severity, finding.key) == (severity, key)
    assert message in finding.message


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tools": {"search": {"custom_parameters": {"query": "x"}, "retry_attempts": 2}}},
        {"tools": {"book": {"custom_parameters": {"anything": 1}}}},
        {"defaults": {"cache_shared": True}, "tools": {"search": {}}},
        {"tools": {"play": {"custom_parameters": {"station": "x", "volume": 3}}}},
        {"defaults": {"environment_specific": {"production": {"timeout": 1}}}},
        {"tools": {"book": {"scheduling": "silent", "behavior": "non_blocking"}}},
        {"tools": {"book": {"scheduling": {"late": "silent"}, "on_cancel": "undo"}}},
        {"tools": {"search": {"filler_after": "median", "filler": "One moment.", "timeout": 9}}},
        {"tools": {"book": {"retry_attempts": 2, "effect": "idempotent"}}},
        {"defaults": {"retry_attempts": 2, "custom_parameters": {"anything": 1}}},
        {"tools": {"search": {"fallback_tools": ["book"]}}},
    ],
)
def test_what_works_is_not_complained_of(settings):
    assert check_against(load(settings), TOOLS) == []


def test_a_finding_reads_as_one_line():
    assert str(Finding(severity="error", key="tools.x", message="m")) == "error: tools.x: m"


def test_the_demos_settings_are_all_of_use():
    from leonidas_tools.toolboxes import action, demo, speech

    tools = {t.name: t for box in (action, demo, speech) for t in box.TOOLS}
    assert check_against(load(CONFIG / "tools.yaml"), tools) == []


def test_many_findings_are_placed_with_one_look_at_the_lines(monkeypatch):
    looks = []

    class Lines(dict):
        def items(self):
            looks.append(len(self))
            return super().items()

    text = "version: 1\ntools:\n" + "".join(f"  wrong_{n}: {{}}\n" for n in range(50))
    read = document.read_document(text)
    counted = dataclasses.replace(read, lines=Lines(read.lines))
    monkeypatch.setattr(document, "read_document", lambda _: counted)
    findings = check_against(load({"tools": {f"wrong_{n}": {} for n in range(50)}}), TOOLS)
    error = refusal(list(findings), text, None)
    assert [problem.line for problem in error.problems] == list(range(3, 53))
    assert len(looks) == 1
