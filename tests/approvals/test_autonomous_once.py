"""Autonomous for one request: only a program says so, and only questions are spared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types

from leonidas_tools import AdvancedToolProcessor, SessionPolicy, Tool, ToolSession
from leonidas_tools.approvals.session_policy import Preferred
from leonidas_tools.calls.events import EventKind
from tests.policies.runs import Told


async def pay(amount: int = 1) -> int:
    return amount


def paying(**policies: Any) -> AdvancedToolProcessor:
    return AdvancedToolProcessor([Tool(pay, requires_approval=True)], {"policies": policies})


MUCH = {"name": "much", "tools": "pay", "when": {"amount": {"above": 100}}, "decide": "ask"}


async def test_one_call_runs_unasked_and_the_next_asks() -> None:
    tools = paying()
    told = Told(tools)
    assert (await tools.execute("pay", autonomous=True)).status == "ok"
    assert [event.data for event in told.of(EventKind.APPROVAL_ANSWER)] == [
        {"decision": "allow", "by": "rule", "rule": "autonomous"}
    ]
    assert (await tools.execute("pay")).status == "pending_approval"


@pytest.mark.parametrize(
    ("policies", "amount", "status"),
    [
        ({"mode": "read_only"}, 1, "denied"),
        ({"rules": [MUCH]}, 500, "pending_approval"),
        ({"rules": [MUCH]}, 5, "ok"),
        ({"rules": [{**MUCH, "decide": "deny"}]}, 500, "denied"),
        ({"rules": [{**MUCH, "modes": ["autonomous"], "decide": "deny"}]}, 500, "denied"),
        ({"rules": [{**MUCH, "modes": ["autonomous"]}]}, 500, "pending_approval"),
        ({"mode": "autonomous"}, 500, "ok"),
    ],
)
@pytest.mark.parametrize("way", ["execute", "session"])
async def test_only_what_the_mode_would_ask_is_spared(
    policies: dict[str, Any], amount: int, status: str, way: str
) -> None:
    tools = paying(**policies)
    arguments = {"amount": amount}
    if way == "execute":
        result = await tools.execute("pay", arguments, autonomous=True)
    else:
        tools.session.get(SessionPolicy).autonomous_once("pay")
        result = await tools.execute("pay", arguments)
    assert result.status == status


async def test_a_session_that_is_stricter_stays_so() -> None:
    tools, session = paying(), ToolSession()
    policy = session.get(SessionPolicy)
    policy.preferred = Preferred(is_known=False)
    unknown = await tools.execute("pay", session=session, autonomous=True)
    policy.preferred = Preferred()
    policy.mode = "read_only"
    read_only = await tools.execute("pay", session=session, autonomous=True)
    assert [unknown.status, read_only.status] == ["pending_approval", "denied"]


async def test_a_session_may_run_the_next_call_of_a_tool_and_only_that() -> None:
    async def call(name: str) -> tuple[str, str | None]:
        part = types.FunctionCall(name=name, args={}, id=name)
        (result,) = await tools.execute_turn([part], session=session)
        return result.status, result.reason_code

    other = Tool(pay, name="other", requires_approval=True)
    tools = AdvancedToolProcessor([Tool(pay, requires_approval=True), other])
    session = ToolSession()
    session.get(SessionPolicy).autonomous_once("pay")
    assert (await call("other"))[0] == "pending_approval"
    assert (await call("pay"))[0] == "ok"
    assert (await call("pay"))[0] == "pending_approval"


async def test_a_permission_for_one_call_lapses() -> None:
    tools = paying()
    tools.session.get(SessionPolicy).autonomous_once("pay", seconds=0)
    assert (await tools.execute("pay")).status == "pending_approval"


async def test_a_tool_that_stands_in_asks_by_itself() -> None:
    async def down() -> None:
        raise ConnectionError

    first = Tool(down, effect="read", retry_attempts=0, fallback_tools=["pay"])
    tools = AdvancedToolProcessor([first, Tool(pay, requires_approval=True)])
    assert (await tools.execute("down", autonomous=True)).status != "ok"


async def test_a_call_that_an_autonomous_one_makes_asks_by_itself() -> None:
    async def outer() -> str:
        return (await tools.execute("pay")).status.value

    tools = AdvancedToolProcessor(
        [Tool(outer, requires_approval=True), Tool(pay, requires_approval=True)]
    )
    result = await tools.execute("outer", autonomous=True)
    assert result.result == "pending_approval"


DATA = [
    {"autonomous": True},
    {"amount": 1, "autonomous": True},
    {"amount": 1, "mode": "autonomous"},
    {"amount": {"autonomous": True}},
]


@pytest.mark.parametrize("arguments", DATA)
@pytest.mark.parametrize("as_text", [True, False])
async def test_no_data_makes_a_call_autonomous(arguments: Any, as_text: bool) -> None:
    given = json.dumps(arguments) if as_text else arguments
    tools = paying()
    alone = await tools.execute("pay", given)
    turn = await tools.execute_turn(
        [
            ("pay", given),
            {"name": "pay", "arguments": given, "autonomous": True, "session": None},
        ]
    )
    assert all(result.status != "ok" for result in [alone, *turn])
