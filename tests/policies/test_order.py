"""The order of policies stands in one table, and every policy is in it."""

import importlib
from pathlib import Path

from leonidas_tools import policies
from leonidas_tools.policies.order import ORDER

MODULES = {file.stem for file in Path(policies.__file__).parent.glob("[!_]*.py")} - {
    "base",
    "order",
    "shared",
}


def test_every_policy_is_in_the_table_once():
    assert sorted(ORDER) == sorted(each for name in MODULES for each in makers(name))


def test_a_policy_stands_outside_what_it_must_see_or_hold_back():
    position = {name: place for place, name in enumerate(ORDER)}
    outside = [
        "loop_guard.for_tool",
        "refusal.for_tool",
        "hooks.for_tool",
        "validation.for_tool",
        "dependencies.for_tool",
        "approval.for_tool",
        "inquiries.for_tool",
        "untrusted.for_tool",
        "cache.for_tool",
        "call_limits.for_tool",
        "timeout.deadline_for_tool",
        "fallback.for_tool",
        "lane.for_tool",
        "limit.for_tool",
        "breaker.for_tool",
        "retry.for_tool",
        "in_process.for_tool",
        "timeout.for_tool",
        "result_budget.for_tool",
    ]
    present = [name for name in outside if name in position]
    assert present == outside
    assert [position[name] for name in outside] == sorted(position[name] for name in outside)


def makers(name):
    module = importlib.import_module(f"leonidas_tools.policies.{name}")
    return [f"{name}.{key}" for key in vars(module) if key.endswith("for_tool")]
