"""What is special of our own tools goes by what they are, and who a session belongs to by name."""

import asyncio
import logging

import pytest

from leonidas_tools import AdvancedToolProcessor, SessionPolicy, ToolSession, tool
from leonidas_tools.store import Store


def own(name, **options):
    @tool(name=name, effect="once", retry_attempts=0, **options)
    async def mine(approval_id: str = "", question_id: str = "") -> str:
        """A tool of the user with the name of one of ours."""
        await asyncio.sleep(60)
        return "ran"

    return mine


@pytest.mark.parametrize("category", ["action", "python"])
@pytest.mark.parametrize("name", ["confirm_action", "answer_question"])
async def test_a_tool_of_the_user_with_such_a_name_keeps_its_timeouts(name, category):
    for limits in ({"timeout_seconds": 0.01}, {"deadline_seconds": 0.01}):
        tools = AdvancedToolProcessor(tools=[own(name, category=category, **limits)])
        assert (await tools.execute(name, {})).status == "unknown_outcome", limits


@pytest.mark.parametrize("name", ["confirm_action", "answer_question"])
@pytest.mark.parametrize(
    ("policies", "status"),
    [
        ({"mode": "read_only"}, "denied"),
        ({"rules": [{"name": "no", "decide": "deny", "categories": "action"}]}, "denied"),
        ({"rules": [{"name": "ask", "decide": "ask", "categories": "action"}]}, "pending_approval"),
    ],
)
async def test_a_tool_of_the_user_with_such_a_name_keeps_its_rules(name, policies, status):
    tools = AdvancedToolProcessor(
        tools=[own(name, category="action")], config={"policies": policies}
    )
    assert (await tools.execute(name, {})).status == status


async def test_a_tool_that_takes_the_name_is_reported_and_does_not_approve(caplog):
    @tool(requires_approval=True)
    async def pay() -> str:
        return "paid"

    tools = AdvancedToolProcessor(tools=[own("confirm_action", category="action"), pay])
    with caplog.at_level(logging.WARNING):
        assert (await tools.execute("pay", {})).status == "pending_approval"
    assert "'confirm_action' has the name of the built-in tool that reports answers" in caplog.text


async def test_users_and_no_user_share_no_result():
    calls = []

    @tool(effect="read", cache_seconds=60)
    async def look() -> str:
        calls.append(1)
        return f"{len(calls)}"

    tools = AdvancedToolProcessor(tools=[look])
    sessions = [
        ToolSession(),
        ToolSession(),
        ToolSession(user="local"),
        ToolSession(user=""),
        ToolSession(user="ana"),
    ]
    for _ in range(2):
        seen = [(await tools.execute("look", session=each)).result for each in sessions]
        assert seen == ["1", "2", "3", "4", "5"]
    again = ToolSession()
    again.put(SessionPolicy(user="ana"))
    assert (await tools.execute("look", session=again)).result == "5"
    none = ToolSession(user="ana")
    none.put(SessionPolicy(user=""))
    assert (await tools.execute("look", session=none)).result == "4"


@pytest.mark.parametrize("user", ["local", "", "ana"])
async def test_what_a_user_prefers_holds_for_no_other_user_and_for_no_session_without_one(
    user, tmp_path
):
    @tool(effect="once")
    async def touch() -> str:
        return "touched"

    url = str(tmp_path / "kept.db")
    async with Store(url) as store:
        await store.preferences.write(user, {"mode": "read_only"})
    config = {"store": {"enabled": True, "url": url}}
    async with AdvancedToolProcessor(tools=[touch], config=config) as tools:
        told = {}
        for each in ("local", "", "ana", None):
            session = ToolSession(user=each)
            tools.runtime.begin(session)
            told[each] = (await tools.execute("touch", session=session)).status
        assert told == {each: "denied" if each == user else "ok" for each in told}
        await tools.store.preferences.write(user, {"mode": "ask"})
