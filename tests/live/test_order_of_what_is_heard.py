"""Frames of sound take a short way to the listener, past the tools, and overtake nothing."""

import asyncio
import base64

import pytest
from genai_processors import processor
from genai_processors.dev.trace_file import SyncFileTrace
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor, LiveToolSession, tool
from leonidas_tools.live.part_queue import is_speech
from leonidas_tools.processors.call_stream import _Calls
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from tests.live.talking import MODELS, Talk, frame, held, is_call, typed


@tool(effect="read", behavior="NON_BLOCKING")
async def look(number: int) -> int:
    """Looks."""
    return number


def tools():
    return AdvancedToolProcessor(tools=[look], builtin_tools=False)


def sound(number):
    data = base64.b64encode(number.to_bytes(2, "big") * 8).decode()
    blob = {"data": data, "mimeType": "audio/pcm;rate=24000"}
    return {"serverContent": {"modelTurn": {"parts": [{"inlineData": blob}]}}}


def words(number):
    return {"serverContent": {"outputTranscription": {"text": str(number)}}}


def said(kinds):
    """A script that says these, each with its number; the user speaks first."""

    async def script(session):
        await session.wait_for_input("audio")
        for number, kind in enumerate(kinds):
            if kind == "sound":
                await session.send(sound(number))
            elif kind == "words":
                await session.send(words(number))
            elif kind == "call":
                await session.send_calls(FunctionCall("look", {"number": number}, id=str(number)))
            else:
                await session.send({"serverContent": {"interrupted": True}})
        await session.wait_for_answers()

    return script


def numbers(parts):
    """The numbers of what was said, in the order in which it was heard."""
    return [number for number in map(number_of, parts) if number is not None]


def number_of(part):
    if is_speech(part):
        return int.from_bytes(part.part.inline_data.data[:2], "big")
    if is_call(part):
        return part.part.function_call.args["number"]
    return int(part.text) if part.substream_name == "output_transcription" else None


@given(kinds=st.lists(st.sampled_from(["sound", "sound", "words", "call"]), max_size=40))
async def test_the_listener_hears_all_in_the_order_in_which_it_was_said(kinds):
    _, talk = await held([said(kinds)], tools())
    assert numbers(talk.heard) == list(range(len(kinds)))


@given(kinds=st.lists(st.sampled_from(["sound", "sound", "words", "interruption"]), max_size=40))
async def test_an_interruption_drops_no_sound_that_comes_after_it(kinds):
    _, talk = await held([said(kinds)], tools())
    last = max((n for n, kind in enumerate(kinds) if kind == "interruption"), default=-1)
    heard = numbers(talk.heard)
    assert heard == sorted(heard)
    assert {n for n in heard if n > last} == set(range(last + 1, len(kinds)))
    assert {n for n, kind in enumerate(kinds) if kind == "words"} <= set(heard)


async def counted(parts, counter):
    """Yield the parts, and count the sound among them."""
    async for part in parts:
        counter.frames += is_speech(part)
        yield part


class Stage(processor.Processor):
    """A stage that counts the sound that passes it."""

    frames = 0

    def call(self, content):
        return counted(content, self)


class Model(GeminiLiveProcessor):
    """A model of a user's own."""

    frames = 0

    def call(self, content):
        return counted(super().call(content), self)


class Tools(AdvancedToolProcessor):
    """Tools of a user's own."""

    frames = 0

    def call(self, content):
        return counted(super().call(content), self)


def _in_the_model(live, tools):
    counts = Model(MODELS["2.5"], client=live.client)
    return counts, tools, counts


def _in_the_tools(live, _):
    counts = Tools(tools=[look], builtin_tools=False)
    return live, counts, counts


def _behind_the_model(live, tools):
    counts = Stage()
    return live + counts, tools, counts


def _behind_the_tools(live, tools):
    counts = Stage()
    return live, tools + counts, counts


@pytest.mark.parametrize(
    "place", [_in_the_model, _in_the_tools, _behind_the_model, _behind_the_tools]
)
async def test_what_a_user_puts_on_the_way_of_the_sound_receives_all_of_it(place):
    async with LiveSimulator(Scenario(connections=[said(["sound"] * 20)])) as simulator:
        talk = Talk(simulator)
        model, stages, counts = place(talk.live, tools())
        talk.agent = LiveToolSession(model, stages, settle_seconds=0.05)
        await talk.run()
    assert (counts.frames, numbers(talk.heard)) == (20, [*range(20)])


async def test_sound_passes_no_tools_where_nothing_else_is_on_the_way(monkeypatch):
    passed = Stage()
    plain = _Calls._pass

    def counting(calls, part):
        passed.frames += is_speech(part)
        plain(calls, part)

    monkeypatch.setattr(_Calls, "_pass", counting)

    async def one_by_one(session):
        await session.wait_for_input("audio")
        for number in range(20):
            await session.send(sound(number))
            await session.wait_for_input(containing=str(number))

    async def echoes(talk):
        yield frame()
        for number in range(20):
            await talk.hears(is_speech, number + 1)
            yield typed(str(number))

    _, talk = await held([one_by_one], tools(), user=echoes)
    assert (passed.frames, numbers(talk.heard)) == (0, [*range(20)])


async def test_a_trace_of_genai_processors_has_all_sound_that_the_tools_pass(tmp_path):
    async with LiveSimulator(Scenario(connections=[said(["sound"] * 20)])) as simulator:
        talk = Talk(simulator, tools())
        trace = SyncFileTrace(name="conversation", trace_dir=str(tmp_path))
        async with asyncio.timeout(30), trace, processor.context():
            await talk.held()
    (session,) = [event.sub_trace for event in trace.events if event.sub_trace]
    (stages,) = [event.sub_trace for event in session.events if event.sub_trace]
    passed = [trace.parts_store[event.part_hash] for event in stages.events if event.part_hash]
    sounds = [part for part in passed if "inline_data" in part["part"]]
    assert (stages.name, len(sounds)) == ("AdvancedToolProcessor", 2 * 20)  # in and out
