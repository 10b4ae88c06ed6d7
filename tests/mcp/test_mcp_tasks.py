"""Tools that can be called only as tasks: begun once, asked after, and never lost from sight."""

import asyncio
import json
import re

import pytest

from leonidas_tools import ToolSession
from leonidas_tools.approvals.request import Decision
from leonidas_tools.calls.call import ResultStatus
from leonidas_tools.errors import ToolError
from tests.mcp.asked import Person, call
from tests.mcp.forking import forked

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(tmp_path):
    return forked("tasking.py", tmp_path / "kept.json")


@pytest.fixture
async def server(serve, settings):
    return await serve(settings).ready()


async def test_a_task_answers_like_any_call_and_tells_how_far_it_is(server):
    result = await server.call("work")
    assert (result.status, result.result) == (ResultStatus.OK, "done after 3 steps")
    told = [server.events.get_nowait().data for _ in range(server.events.qsize())]
    assert told == [{"message": "step 1"}, {"message": "step 2"}]


async def test_what_a_task_reports_arrives_though_its_request_was_answered(server):
    await server.call("reports")
    told = [server.events.get_nowait().data for _ in range(server.events.qsize())]
    assert {"progress": 1.0, "fraction": 0.25} in told


async def test_some_answer_at_once(server):
    assert (await server.call("direct")).result == "at once"


async def test_of_a_task_no_more_need_be_said_than_how_far_it_is(server):
    assert (await server.call("terse")).result == "done after 3 steps"


async def test_why_a_task_was_cancelled_tells_no_secrets(serve, settings):
    server = await serve({**settings, "env": {"PRINTER_KEY": "hunter2hunter2"}}).ready()
    with pytest.raises(ToolError) as cancelled:
        await server.call("leaks")
    assert cancelled.value.reason_code == "mcp_task_cancelled"
    assert "hunter2" not in cancelled.value.message


FAILURES = {
    "fail": ("failed", "mcp_error", "Out of ink."),
    "cancelled": ("unknown_outcome", "mcp_task_cancelled", "Out of paper"),
    "expire": ("unknown_outcome", "mcp_task_lost", "Task not found"),
    "garbage": ("unknown_outcome", "mcp_malformed_answer", "does not match its description"),
    "die_and_forget": ("unknown_outcome", "mcp_task_lost", "Task not found"),
    "expire_reading": ("unavailable", "mcp_task_lost", "Task not found"),
}


@pytest.mark.parametrize("tool", FAILURES)
async def test_how_a_task_ends_without_a_result(server, tool):
    with pytest.raises(ToolError) as failed:
        await server.call(tool)
    status, code, why = FAILURES[tool]
    assert (failed.value.status, failed.value.reason_code) == (status, code)
    assert why in failed.value.message
    await server.back()
    assert json.loads((await server.call("seen")).result) == [tool]


async def test_the_result_of_a_task_that_has_failed_is_a_failure(server):
    result = await server.call("fail_with_result")
    assert (result.status, result.message) == (ResultStatus.FAILED, "The printer is on fire.")


async def test_garbage_is_cancelled(server):
    with pytest.raises(ToolError):
        await server.call("garbage")
    assert json.loads((await server.call("cancellations")).result) == ["garbage"]


@pytest.mark.parametrize("tool", ["refuses_early", "refuses_late"])
async def test_a_server_that_gives_no_result_early_is_asked_again(server, tool):
    assert (await server.call(tool)).result == "done after 3 steps"


async def test_a_server_that_gives_no_result_early_is_not_asked_more_often(server):
    result = (await server.call("refuses_for_long")).result
    assert int(re.search(r"\d+", result)[0]) <= 6


@pytest.mark.parametrize("tool", ["endless", "slow_to_begin"])
async def test_cancelling_a_call_cancels_its_task(server, tool):
    running = await server.begun(tool)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert json.loads((await server.call("cancellations")).result) == [tool]


async def test_a_task_that_never_ends_is_given_up_in_time(chain, settings):
    tools = await chain({**settings, "tools": {"endless": {"timeout": 0.5}}})
    result = await call(tools, "endless")
    assert result.status is ResultStatus.UNKNOWN_OUTCOME
    told = await call(tools, "cancellations")
    assert json.loads(told.result) == ["endless"]


@pytest.mark.parametrize("tool", ["die", "die_reading"])
async def test_a_task_outlives_its_connection_and_is_begun_once(server, tool):
    result = await server.call(tool)
    assert (result.status, result.result) == (ResultStatus.OK, "done after 3 steps")
    assert json.loads((await server.call("seen")).result) == [tool]


async def test_a_server_that_is_stopped_takes_its_tasks_along(server):
    running = await server.begun("endless")
    await server.mcp.stop()
    with pytest.raises(ToolError) as lost:
        await running
    assert (lost.value.status, lost.value.reason_code) == ("unknown_outcome", "mcp_server_lost")


# --- questions -----------------------------------------------------------------------------------


async def test_what_a_task_asks_is_answered(chain, settings):
    person = Person(Decision.fill({"name": "Ana"}))
    tools = await chain(settings, approval=person)
    result = await call(tools, "ask")
    assert json.loads(result.result) == {"action": "accept", "content": {"name": "Ana"}}
    (request,) = person.asked
    assert request.title == "The server 'lab' asks: Who? (name)"


async def test_a_task_says_whose_it_is_where_two_conversations_call(chain, settings):
    person = Person(Decision.fill({"name": "Ana"}))
    tools = await chain(settings, approval=person)
    endless = tools.execute("endless_reading", {}, session=ToolSession("other"))
    other = asyncio.create_task(endless)
    while not tools.mcp_servers.status()[0]["calls"]:
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        result = await tools.execute("ask", {}, session=ToolSession("asked"))
    assert json.loads(result.result) == {"action": "accept", "content": {"name": "Ana"}}
    assert [request.session for request in person.asked] == ["asked"]
    other.cancel()
