"""A gateway that stops: conversations end at a quiet moment."""

import asyncio

from leonidas_tools import tool
from leonidas_tools.gateway import GatewayLimits, make_token
from leonidas_tools.simulator import Call, Say, TurnComplete, WaitForAnswers, WaitForInput
from tests.gateway.served import SECRET, Client, Served


async def test_a_quiet_conversation_ends_at_once():
    async with Served([WaitForInput("text")]) as served, served.client() as client:
        served.serving.cancel()
        assert await client.closed() == 1012
        await asyncio.wait({served.serving})


async def test_a_call_and_the_turn_after_it_are_not_cut():
    goes_on = asyncio.Event()

    @tool(effect="once")
    async def book() -> str:
        """Book a seat."""
        await goes_on.wait()
        return "booked"

    steps = [
        WaitForInput("text"),
        Call.one("book", id="c1"),
        WaitForAnswers(),
        Say("{answers.c1.result}", audio_seconds=0.2),
        TurnComplete(),
    ]
    async with Served(steps, tools=[book]) as served, served.client() as client:
        await client.say("text", text="book")
        await client.until("tool", event="tool_start")
        served.serving.cancel()
        await client.until("draining")
        ready = await served.http.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
        assert (await served.http.get("/healthz")).status_code == 200
        async with served.opened(make_token(SECRET, "bea")) as late:
            assert await Client(late).closed() == 1012
        goes_on.set()
        await client.until("turn_complete")
        assert len(client.sound) == 6400
        assert await client.closed() == 1012


async def test_what_does_not_become_quiet_ends_after_the_grace():
    @tool(effect="read")
    async def wait() -> str:
        """Wait for ever."""
        return await asyncio.get_running_loop().create_future()

    steps = [WaitForInput("text"), Call.one("wait", id="c1"), WaitForAnswers()]
    limits = GatewayLimits(grace_seconds=0.01)
    async with Served(steps, tools=[wait], limits=limits) as served, served.client() as client:
        await client.say("text", text="wait")
        await client.until("tool", event="tool_start")
        served.serving.cancel()
        assert await client.closed() == 1012


async def test_a_client_that_has_not_begun_is_not_waited_for():
    async with (
        Served([WaitForInput("text")]) as served,
        served.opened(make_token(SECRET, "ana")) as silent,
    ):
        await silent.ping()
        served.serving.cancel()
        assert await Client(silent).closed() == 1012
        await asyncio.wait({served.serving})
