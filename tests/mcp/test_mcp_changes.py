"""Tools of MCP servers that come, go and change reach what runs."""

import asyncio
import itertools

import pytest

from leonidas_tools.mcp.connection.connection import ChangeSignal
from leonidas_tools.mcp.listing import definitions
from leonidas_tools.simulator import FunctionCall
from tests.live.talking import held, on_elastic_time, passes
from tests.mcp.bench import described

pytestmark = pytest.mark.timeout(180)

CHANGED = described(
    "look", "Looks anew.", inputSchema={"type": "object", "properties": {"at": {"type": "string"}}}
)


async def until(session, holds):
    """Waits until something holds of what is declared to the model."""
    while not holds(session._declared):
        session._changed.clear()
        await session._changed.wait()


async def answered(session, name, **arguments):
    (answer,) = await session.call(FunctionCall(name, arguments))
    return answer.response


async def test_tools_that_come_go_and_change_reach_a_live_session(bench):
    bench.server("eye", "look", "blink", pin="off")

    async def only(session):
        await until(session, lambda declared: {"look", "blink", "announce"} <= set(declared))
        assert (await answered(session, "look"))["result"] == "{}"
        bench.lists("eye", CHANGED, "wink")
        assert (await answered(session, "announce"))["status"] == "ok"
        await until(session, lambda declared: "wink" in declared and "blink" not in declared)
        assert (await answered(session, "look", at="you"))["result"] == '{"at": "you"}'
        assert (await answered(session, "wink"))["result"] == "{}"

    tools = bench.processor(policies={"mode": "autonomous"})
    simulator, talk = await held([only], tools, generation="3.8-live")
    assert len(simulator.setups) == 1
    *_, last = (e["tools"] for e in talk.events if e["event"] == "tools_changed")
    assert {"announce", "look", "wink"} == set(last) & {"announce", "blink", "look", "wink"}
    assert bench.declared()["look"].description == "Looks anew."


async def test_a_live_session_never_reads_what_a_tool_has_become(bench):
    bench.server("eye", "look")

    async def only(session):
        await until(session, lambda declared: "look" in declared)
        bench.lists("eye", CHANGED, "wink")
        assert (await answered(session, "announce"))["status"] == "ok"
        await until(session, lambda declared: "wink" in declared)
        assert (await answered(session, "look"))["status"] == "denied"

    tools = bench.processor(policies={"mode": "autonomous"})
    simulator, _ = await held([only], tools, generation="3.8-live")
    assert "Looks anew" not in str(simulator.setups)
    assert bench.declared()["look"].description == "Does it."


async def test_a_burst_of_changes_is_few_listings(bench):
    bench.server("eye", "look")
    async with bench.processor():
        await bench.ready()
        first = await bench.call("announce")
        bench.lists("eye", "look", "wink")
        await bench.call("announce", times=1000)
        await bench.until(lambda: bench.names() == ["look", "wink"])
        last = await bench.call("announce")
    assert last - first < 100


@on_elastic_time
async def test_a_server_whose_listing_takes_long_is_listed_for_a_fifth_of_the_time():
    changes = ChangeSignal()

    async def listed():
        await changes.wait(lambda: False)
        await asyncio.sleep(2)  # of the loop's time

    changes.set(by_server=True)
    listing = asyncio.create_task(listed())
    await passes(2)
    await listing
    changes.set(by_server=True)
    listing = asyncio.create_task(listed())
    await passes(9.5)
    assert not listing.done()
    await passes(1)
    await listing
    changes.set()  # because of us, such as for other settings
    listing = asyncio.create_task(listed())
    await passes(2)
    await listing


async def test_a_running_call_ends_although_its_tool_has_gone(bench):
    bench.server("eye", "look")
    async with bench.processor():
        await bench.ready()
        bench.lists("eye", "wink")
        calls = [bench.call("announce"), *(bench.call("look") for _ in range(3))]
        answers = await asyncio.gather(*calls)
        assert not [each for each in answers if getattr(each, "status", None) == "cancelled"]
        await bench.until(lambda: bench.names() == ["wink"])
        assert (await bench.call("look")).status == "not_found"


def counting(**said):
    """A tool that counts one thing, and a listing that says it answers so or otherwise."""
    answer = {"content": [], "structuredContent": {"count": 1}}
    output = {"type": "object", "properties": {"count": said}}
    return described("count", outputSchema=output, _meta={"answer": answer})


async def test_an_answer_is_held_to_what_its_server_lists_by_now(bench):
    bench.server("eye", counting(type="integer"))
    async with bench.processor():
        await bench.ready()
        assert (await bench.tools.execute("count", {})).result == {"count": 1}
        bench.lists("eye", counting(type="string"), "blink")
        await bench.call("announce")
        await bench.until(lambda: "blink" in bench.names())
        assert "does not have the structure" in (await bench.tools.execute("count", {})).message
        bench.lists("eye", "count", "wink")
        await bench.call("announce")
        await bench.until(lambda: "wink" in bench.names())
        assert await bench.call("count") == {}


async def test_an_answer_is_held_to_what_is_listed_by_now_though_python_finds_it_the_same(bench):
    bench.server("eye", counting(const=1))
    async with bench.processor():
        await bench.ready()
        assert (await bench.tools.execute("count", {})).result == {"count": 1}
        bench.lists("eye", counting(const=True), "wink")
        await bench.call("announce")
        await bench.until(lambda: "wink" in bench.names())
        assert "does not have the structure" in (await bench.tools.execute("count", {})).message


async def test_an_answer_that_takes_too_many_checks_is_taken_unchecked(bench):
    other = {"anyOf": [{"const": number} for number in range(200)]}
    answer = {"content": [], "structuredContent": {"counts": ["x"] * 5_000}}
    output = {"type": "object", "properties": {"counts": {"items": other}}}
    bench.server("eye", described("count", outputSchema=output, _meta={"answer": answer}))
    async with bench.processor():
        await bench.ready()
        assert (await bench.tools.execute("count", {})).result == {"counts": ["x"] * 5_000}


async def test_the_loop_gets_a_turn_between_the_schemas_of_a_listing(bench, monkeypatch):
    turns, seen = itertools.count(), []
    turn = next(turns)

    async def pass_turns():
        nonlocal turn
        while True:
            turn = next(turns)
            await asyncio.sleep(0)

    upgraded = definitions.upgrade_schema
    monkeypatch.setattr(
        definitions, "upgrade_schema", lambda schema: seen.append(turn) or upgraded(schema)
    )
    bench.server("eye", *(f"look_{number}" for number in range(20)))
    async with bench.processor():
        passing = asyncio.create_task(pass_turns())
        await bench.ready()
        passing.cancel()
    assert len(seen) > 20
    assert len(set(seen)) == len(seen)
