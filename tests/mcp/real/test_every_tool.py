"""Every tool of servers that nobody here wrote, called through the stream."""

import asyncio
import contextlib

import pytest

from tests.mcp.real.conftest import frozen
from tests.promises.faults.play import Script, call, cancellation

# The first test of a run may have to fetch servers.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def answers(heard):
    """The one answer of each call: its envelope, and the types of the media beside it."""
    found = {}
    for part in heard.parts:
        response = part.part.function_response
        if response is not None and not part.tool_cancellation:
            assert response.id not in found
            media = tuple(item.inline_data.mime_type for item in response.parts or ())
            found[response.id] = response.response, media
    return found


async def listed(registry, awaited):
    """The names of the tools: those awaited, unless others have come instead."""
    changed = asyncio.Event()
    stop = registry.on_change(changed.set)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):  # a server tells of some when it knows what we can
            while (names := {tool.name for tool in registry}) < awaited:
                await changed.wait()
                changed.clear()
    stop()
    return names


NOTE = {
    "message": "This is the result of an equal call that was cancelled after its effect had begun. "
    "Nothing was done now. Call again only if the user wants it done once more.",
    "reason_code": "cancelled_call",
}
"""What the model reads with the result of a call with an effect that it has cancelled."""


def was_cancelled(heard):
    return any(part.tool_cancellation for part in heard.parts)


async def test_every_tool_that_a_server_lists_is_in_its_table_and_answers_as_the_table_says(
    table, tools
):
    called = {row.tool for row in table.rows}
    assert await listed(tools.registry, called) == called
    async with Script(tools) as session:
        said = []
        for number, row in enumerate(table.rows):
            if (row.tool, row.arguments) in said:  # an equal call of one turn would not run
                await session.until_answered(str(said.index((row.tool, row.arguments))))
            said.append((row.tool, row.arguments))
            session.say(call(row.tool, row.arguments, id=str(number)))
    assert answers(session.heard) == {
        str(number): (row.answer, row.media) for number, row in enumerate(table.rows)
    }


async def test_what_one_session_cancels_another_session_still_hears(table, tools, mark):
    row = table.rows[0]
    first, again = (call(row.tool, row.arguments, id=number) for number in ("1", "2"))
    async with Script(tools) as one, Script(tools) as other:
        with frozen(mark):
            one.say(first)
            await one.until_event("tool_start", "1")
            other.say(first)
            one.say(cancellation("1"))
            await one.until(was_cancelled)
        await other.until_answered("1")
        for session in (one, other):
            session.say(again)
    answer = row.answer, row.media
    went_on = answers(one.heard)["2"][0].get("reason_code") == "cancelled_call"
    noted = {**row.answer, **NOTE} if went_on else row.answer
    assert [answers(session.heard) for session in (one, other)] == [
        {"2": (noted, row.media)},
        {"1": answer, "2": answer},
    ]
