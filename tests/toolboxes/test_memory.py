"""Memories are found by their meaning, kept over restarts, and seen by their user alone."""

import asyncio

import pytest

from leonidas_tools import ToolRuntime, ToolSession
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from tests.store.conftest import file, postgres, where  # noqa: F401 - fixtures


@pytest.fixture
def runtime(where):  # noqa: F811 - the fixture
    def made(toolbox="memory", **more):
        store = {"enabled": True, "url": where}
        return ToolRuntime(config={"toolboxes": [toolbox], "store": store, **more})

    return made


async def said(tools, session, name, **arguments):
    return (await tools.execute(name, arguments, session=session)).to_response()


async def test_what_is_remembered_is_recalled_by_its_meaning_after_a_restart(runtime):
    ana = ToolSession("kitchen", user="ana")
    async with runtime() as tools:
        for text in (
            "Ana is allergic to peanuts.",
            "The router password is on the fridge.",
            "Her brother Tom lives in Oslo.",
        ):
            kept = await said(tools, ana, "remember", text=text)
            assert kept["speech"] == "I will remember that."
        again = await said(tools, ana, "remember", text="Ana is allergic to peanuts.")
        assert again["status"] == "ok"
    ana = ToolSession("car", user="ana")
    async with runtime() as tools:
        found = await said(tools, ana, "recall", query="Which food must she not eat?")
        texts = [each["text"] for each in found["result"]]
        assert texts[0] == "Ana is allergic to peanuts."
        assert len(texts) == 3
        found = await said(tools, ana, "recall", query="Which relatives live abroad?", limit=1)
        assert [each["text"] for each in found["result"]] == ["Her brother Tom lives in Oslo."]


async def test_no_user_sees_or_forgets_a_memory_of_another(runtime):
    ana, bo, none = ToolSession(user="ana"), ToolSession(user="bo"), ToolSession()
    local = ToolSession(user="local")
    async with runtime() as tools:
        kept = await said(tools, ana, "remember", text="The PIN of the safe is 4711.")
        await said(tools, none, "remember", text="The garage is open.")
        for other in (bo, local):
            assert (await said(tools, other, "recall", query="PIN"))["status"] == "no_results"
        found = await said(tools, none, "recall", query="PIN of the safe")
        assert [each["text"] for each in found["result"]] == ["The garage is open."]
        gone = await decided(tools, bo, kept["result"]["id"])
        assert gone.status == "not_found"
        assert (await said(tools, ana, "recall", query="PIN"))["status"] == "ok"


async def test_what_is_forgotten_is_not_recalled(runtime):
    ana = ToolSession(user="ana")
    async with runtime() as tools:
        kept = await said(tools, ana, "remember", text="Ana likes jazz.")
        await said(tools, ana, "remember", text="Ana plays chess.")
        assert len((await said(tools, ana, "recall", query="music"))["result"]) == 2
        gone = await decided(tools, ana, kept["result"]["id"])
        assert gone.speech == "I have forgotten that."
        found = await said(tools, ana, "recall", query="music")
        assert [each["text"] for each in found["result"]] == ["Ana plays chess."]


async def test_a_memory_without_text_or_without_end_is_refused(runtime):
    ana = ToolSession(user="ana")
    async with runtime({"memory": {"max_characters": 10}}) as tools:
        blank = await said(tools, ana, "remember", text=" \0 ")
        assert (blank["status"], blank["reason_code"]) == ("invalid_argument", "blank_memory")
        long = await said(tools, ana, "remember", text="a" * 11)
        assert (long["status"], long["reason_code"]) == ("invalid_argument", "too_long_memory")


async def test_without_a_store_the_model_hears_that_nothing_can_be_remembered():
    async with ToolRuntime(config={"toolboxes": ["memory"]}) as tools:
        answer = await said(tools, ToolSession(user="ana"), "remember", text="Ana likes jazz.")
        assert (answer["status"], answer["reason_code"]) == ("unavailable", "no_store")


async def decided(tools, session, memory_id):
    """Return the result of `forget` after the user's yes."""
    answered = asyncio.get_running_loop().create_future()
    desk = session.get(Approvals)
    stop = desk.on_result(lambda _, result: answered.set_result(result))
    pending = await tools.execute("forget", {"memory_id": memory_id}, session=session)
    assert pending.status == "pending_approval"
    desk.decide(desk.pending()[0].id, Decision.approve())
    try:
        return await answered
    finally:
        stop()
