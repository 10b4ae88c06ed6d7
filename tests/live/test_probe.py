"""A probe finds what each generation supports, and ends within its bounds."""

import asyncio
from contextlib import suppress

import pytest
from google.genai import Client

from leonidas_tools.cli.generations import GENERATIONS
from leonidas_tools.cli.live import obey
from leonidas_tools.errors import SimulatorError
from leonidas_tools.live.probe import FACTS, Bounds, Finding, Probe
from leonidas_tools.live.profiles import find_profile, load_profiles, write_profile
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Quirks
from tests.live.talking import on_elastic_time

SOURCE = "a test, 2026-11-28"
CAREFUL = find_profile("unknown")


async def probed(play, *, model="gemini-9-live", vertex=False, bounds=None, **server):
    """Probe a server whose model is `play`; return the probe, and the simulator."""
    asyncio.get_running_loop().advance(3600)
    with suppress(SimulatorError):  # of the refusals
        async with LiveSimulator(play, **server) as simulator:
            options = simulator.http_options()
            client = Client(api_key="x", vertexai=vertex, http_options=options)
            probe = Probe(client, model, bounds=bounds or Bounds())
            await probe.run()
    return probe, simulator


def unmeasured(probe):
    return {field: each.evidence for field, each in probe.findings.items() if not each.measured}


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda each: each.server)
@on_elastic_time
async def test_the_profile_of_a_generation_is_found(generation, tmp_path):
    model, vertex = generation.model, generation.vertex
    probe, simulator = await probed(obey, model=model, vertex=vertex, generation=generation.server)
    found = probe.profile(SOURCE)
    known = find_profile(generation.profile)
    own = {"name": model, "models": (model,), "vertex": vertex, "sources": found.sources}
    assert found == known.model_copy(update=own)
    assert found.sources.keys() == FACTS.keys()
    assert all(each.startswith(f"measured by {SOURCE}: ") for each in found.sources.values())

    usage = [each.data for each in simulator.messages if "usageMetadata" in each.data]
    assert probe.tokens == 100 * len(usage) > 0

    file = tmp_path / "of" / "mine.yaml"
    write_profile(found, file, comment="measured")
    assert load_profiles(file)[0] == found


@on_elastic_time
async def test_a_refusal_is_quoted_with_its_code():
    probe, _ = await probed(obey, generation="3.8-thinking")
    assert probe.findings["scheduling"] == Finding(
        value=False,
        evidence="closed with 1007 Function response scheduling is not supported for this model",
    )


async def goes_silent(model):
    await model.go_silent()


async def closes(model):
    await model.wait_for_input("text")
    await model.close(1011, "Internal error")


async def drops(model):
    await model.drop()


@pytest.mark.parametrize(
    ("play", "reason"),
    [(goes_silent, "no reply within 15 s"), (closes, "1011 Internal error"), (drops, "1006 ")],
)
@on_elastic_time
async def test_a_broken_server_leaves_all_unknown(play, reason):
    began = asyncio.get_running_loop().time()
    probe, _ = await probed(play)
    passed = asyncio.get_running_loop().time() - began
    reasons = unmeasured(probe)
    assert reasons.keys() == FACTS.keys()
    assert reasons["thinking_levels"].startswith(reason)
    assert passed < Bounds().total_seconds
    found = probe.profile(SOURCE)
    own = {"name": "gemini-9-live", "models": ("gemini-9-live",), "vertex": False}
    assert found == CAREFUL.model_copy(update={**own, "sources": found.sources})
    assert all(each.startswith("not measured by ") for each in found.sources.values())


@on_elastic_time
async def test_the_time_for_all_facts_is_bounded():
    began = asyncio.get_running_loop().time()
    probe, _ = await probed(goes_silent, bounds=Bounds(total_seconds=20, fact_seconds=10))
    assert unmeasured(probe) == {
        **dict.fromkeys(FACTS, "the time is over"),
        "behavior_field": "behaviors is unknown",
        **dict.fromkeys(("scheduling", "will_continue"), "behavior_field is unknown"),
    }
    assert asyncio.get_running_loop().time() - began < 30


@on_elastic_time
async def test_no_session_is_opened_beyond_the_tokens():
    probe, simulator = await probed(obey, bounds=Bounds(tokens=600))
    assert unmeasured(probe)["json_schema"] == "the bound of 600 tokens is reached"
    assert probe.tokens == 600
    assert probe.sessions == len(simulator.connections) == 6


@on_elastic_time
async def test_without_a_session_only_one_fact_is_tried():
    async with LiveSimulator(obey) as simulator:
        simulator.refuse_connections(100, http_status=401)
        client = Client(api_key="x", http_options=simulator.http_options())
        probe = Probe(client, "gemini-9-live", bounds=Bounds())
        await probe.run()
    assert unmeasured(probe).keys() == {"thinking_levels"}
    assert "401" in unmeasured(probe)["thinking_levels"]
    assert (probe.sessions, len(simulator.refusals)) == (0, 1)


async def speaks_only(model):
    """A model that calls no function."""
    while True:
        await model.wait_for_input("text", within_seconds=1e6)
        await model.say("Banana.", audio_seconds=0)
        await model.turn_complete()


@on_elastic_time
async def test_a_fact_that_needs_a_call_is_unknown_without_one():
    probe, _ = await probed(speaks_only, quirks=Quirks(automatic_handles=True))
    calling = ("default_behavior", "scheduling", "will_continue", "json_schema")
    calling += ("response_media", "answers_lost_calls")
    assert unmeasured(probe) == {
        **dict.fromkeys(calling, "no call of 'get_word' within 15 s"),
        "context_update": "no call of 'find_fruit' within 15 s",
    }
    assert probe.findings["client_content"].value is True


async def ignores(model):
    """A model that accepts all, calls without arguments, and never says a result."""
    while True:
        (heard,) = await model.wait_for_input("text", within_seconds=1e6)
        if "Call" in heard.text and model.declared:
            name = next(name for name in model.declared if name in heard.text)
            await model.send_calls(FunctionCall(name))
            await model.wait_for_answers(within_seconds=1e6)
            await model.say("All right.", audio_seconds=0)
        else:
            await model.say("Banana.", audio_seconds=0)
        await model.turn_complete()


@on_elastic_time
async def test_what_is_accepted_without_effect_is_unsupported():
    probe, _ = await probed(ignores)
    assert probe.findings["json_schema"] == Finding(
        value=False, evidence="accepted, but called without arguments"
    )
    assert probe.findings["will_continue"] == Finding(
        value=False, evidence="accepted, but the result that follows is not spoken"
    )
    assert probe.findings["session_resumption"] == Finding(
        value=False, evidence="no handle was sent after a turn"
    )
