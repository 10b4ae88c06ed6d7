"""What a live session must survive."""

import asyncio
import collections
import contextlib
import gc
import itertools
import logging
import math
import sys
import time

import psutil
import pytest
from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai import Client, types

from leonidas_tools import AdvancedToolProcessor, tool
from leonidas_tools.approvals.transcript import TranscriptPiece
from leonidas_tools.live.call_tracker import CallTracker, LiveCall
from leonidas_tools.simulator import FunctionCall, LiveSimulator, Scenario
from tests.live.driven import Session, on_elastic_loop, passing
from tests.live.talking import Talk, frame, outcomes_told, responses_in, says_when_called
from tests.tasks import other_tasks

TEXT = ProcessorPart("called", substream_name="realtime")


class Gate:
    """Tools whose calls wait until they are let go."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self._open = asyncio.Event()
        self.ran = collections.Counter()

    def open(self):
        """From any thread: scenarios are played in the simulator's own."""
        self._loop.call_soon_threadsafe(self._open.set)

    def tools(self, behaviors=("NON_BLOCKING",), **settings):
        return AdvancedToolProcessor(
            tools=[self._tool(behavior) for behavior in behaviors],
            config=settings or None,
            builtin_tools=False,
        )

    def _tool(self, behavior):
        @tool(name=f"wait_{behavior.lower()}", effect="once", behavior=behavior, lane=None)
        async def wait(n: int) -> dict:
            """Waits."""
            self.ran[n] += 1
            await self._open.wait()
            return {"n": n}

        return wait


@tool(effect="read")
async def ping(n: int = 0) -> int:
    """Answers."""
    return n


def pinging(**settings):
    return AdvancedToolProcessor(tools=[ping], config=settings or None, builtin_tools=False)


async def pinged(session, n=0):
    """The model calls a healthy tool and gets its answer."""
    (answer,) = await session.call(FunctionCall("ping", {"n": n}))
    assert answer.response["result"] == n


# --- a drop, and a server that stays down ----------------------------------------------------


@on_elastic_loop
async def test_twenty_calls_survive_a_drop_and_a_server_that_stays_down():
    gate, loop, tries, skipped = Gate(), asyncio.get_running_loop(), [], []
    kinds = ("wait_blocking", "wait_non_blocking")

    async def first(session):
        await session.session_resumption("handle")
        calls = [FunctionCall(kinds[n % 2], {"n": n}, id=f"c{n}") for n in range(20)]
        await session.send_calls(*calls[:7])
        await session.send_calls(*calls[7:])
        await session.wait_for_input(containing="called")
        talk.simulator.pause_listening()
        await session.drop()

    async def second(session):
        await talk.simulator.until(lambda: len(outcomes_told(talk.simulator)) == 20)
        await session.say("Done.")
        await session.turn_complete()

    class Tries(logging.Handler):
        def emit(self, record):
            if "Connecting failed" in record.msg:
                tries.append(loop.time())
                skipped.append(loop.time() - time.monotonic())

    watching = Tries()
    logging.getLogger("leonidas_tools.live.runner").addHandler(watching)
    tools = gate.tools(("BLOCKING", "NON_BLOCKING"))
    try:
        async with Session([first, second], tools) as talk:
            talk.speak()
            await talk.hears_calls(20)
            talk.say(TEXT)
            await talk.hears_event("connection_lost")
            gate.open()
            await asyncio.wrap_future(loop.advance(60))
            talk.simulator.resume_listening()
            loop.advance(1)
            await talk.hears_turns()
    finally:
        logging.getLogger("leonidas_tools.live.runner").removeHandler(watching)
    assert gate.ran == dict.fromkeys(range(20), 1)
    assert sorted(o["response"]["result"]["n"] for o in outcomes_told(talk.simulator)) == list(
        range(20)
    )
    # Whenever the server is back, the next try comes within a second, not counting the real time
    # that this machine takes: only the pauses that the session makes are skipped.
    assert len(tries) > 60
    assert max(after - before for before, after in itertools.pairwise(skipped)) < 1.0
    assert min(after - before for before, after in itertools.pairwise(tries)) > 0.04


@on_elastic_loop
async def test_a_session_with_a_server_that_is_gone_ends_when_patience_does():
    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        talk.simulator.pause_listening()
        await session.drop()

    loop = asyncio.get_running_loop()
    async with Session([first], pinging(), give_up_seconds=30.0) as talk:
        talk.speak()
        await talk.hears_event("connection_lost")
        lost_at = loop.time()
        loop.advance(100)
        with pytest.raises(OSError, match="Connect call failed"):
            await talk.task
        assert 29 < loop.time() - lost_at < 32
        talk.task = asyncio.create_task(asyncio.sleep(0))


@on_elastic_loop
async def test_patience_restarts_with_every_connection():
    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input(containing="go")
        await session.go_away(1)
        await session.turn_complete()
        talk.simulator.refuse_connections(2, http_status=503)
        await session.wait_for_close()

    async def second(session):
        await session.say("Here I am.")
        await session.turn_complete()

    async with Session([first, second], pinging(), give_up_seconds=30.0) as talk:
        talk.speak()
        await talk.hears_event("connection_opened")
        await passing(60)
        talk.say(ProcessorPart("go", substream_name="realtime"))
        await talk.hears_turns()
        await passing(2)
        await talk.hears_turns(2)
    assert talk.said == "Here I am."


# --- a long session ---------------------------------------------------------------------------


@pytest.mark.slow
@on_elastic_loop
async def test_an_hour_of_conversation_keeps_one_connection_and_no_memory():
    async def play(session):
        for _ in range(10):
            (asked,) = await session.wait_for_input("text")
            await session.wait_for_input("audio", count=5)
            first = 4 * int(asked.text)
            calls = [FunctionCall("ping", {"n": n}) for n in range(first, first + 4)]
            await session.call(*calls)
            await session.say("Yes.", audio_seconds=0.1)
            if int(asked.text) % 10 == 9:
                await session.go_away(50, close=True)
            await session.turn_complete()

    tools = pinging(monitoring={"history_size": 10})
    alive = {}
    async with Session(play, tools, server="3.8-live") as talk:
        for minute in range(61):
            if minute in {18, 19, 20, 58, 59, 60}:
                alive[minute] = _objects()
            talk.heard.clear()
            talk.say(ProcessorPart(str(minute), substream_name="realtime"))
            talk.speak(5)
            await talk.hears_turns()
            assert len(talk.simulator.open_connections) <= 1
            await asyncio.wrap_future(talk.simulator.advance(45))
            await passing(6, talk.simulator)
            asyncio.get_running_loop().advance(9)
    assert talk.frames == list(range(61 * 5))
    assert len(talk.simulator.connections) == 7
    assert [c.resumed_from for c in talk.simulator.connections] == [None, 1, 2, 3, 4, 5, 6]
    assert all(call.answered_once for call in talk.simulator.calls)
    # What three minutes on end have in common: a connection that is being renewed is in one.
    early, late = alive[18] & alive[19] & alive[20], alive[58] & alive[59] & alive[60]
    grown = late - early
    grown.pop(TranscriptPiece, 0)  # of the last 1000 things that were said, which is bounded
    # Of the last 4096 calls it is remembered that they were made: that alone still grows.
    assert grown.pop(LiveCall, 0) <= 160
    assert sum(grown.values()) <= 40, grown.most_common(5)


def _objects():
    """How many objects of ours, and of what we stand on, there are: by type."""
    gc.collect()
    kinds = collections.Counter(map(type, gc.get_objects()))
    ours = ("leonidas_tools", "google.genai", "genai_processors", "websockets", "asyncio")
    return collections.Counter(
        {
            kind: count
            for kind, count in kinds.items()
            if str(kind.__module__).startswith(ours) and "simulator" not in str(kind.__module__)
        }
    )


async def test_an_outcome_survives_a_network_that_is_lost_again_and_again():
    gate = Gate()

    async def first(session):
        await session.session_resumption("handle")
        await session.send_calls(FunctionCall("wait_non_blocking", {"n": 4}, id="c"))
        await session.wait_for_input(containing="called")
        gate.open()
        await session.drop()

    async def lost(session):
        session._connection.ignore_client(None)
        await asyncio.sleep(0.1)
        await session.drop()

    async def last(session):
        await talk.simulator.until(lambda: len(outcomes_told(talk.simulator)) == 1)
        await session.turn_complete()

    async with Session([first, *[lost] * 4, last], gate.tools()) as talk:
        talk.speak()
        await talk.hears_calls()
        talk.say(TEXT)
        await talk.hears_turns()
    assert gate.ran == {4: 1}


def test_answers_that_the_server_may_have_refused_go_one_by_one_a_bounded_number_of_times():
    book = CallTracker()
    book.opened(number=1)
    for n in range(3):
        asked = types.FunctionCall(id=f"c{n}", name="look", args={"n": n})
        book.ask(asked, blocking=False, turn=0, resumed=False, repeats=False)
        answer = types.FunctionResponse(id=f"c{n}", name="look", response={"n": n})
        book.answer(ProcessorPart(types.Part(function_response=answer), role="user"))
    tried = []
    for message in range(20):
        book.opened(number=message + 2)
        ready = book.orphaned()
        tried.append([call.id for call in ready])
        book.sent(ready, message)
        book.lost(refused=True)
    assert tried[0] == ["c0", "c1", "c2"]
    assert {len(ids) for ids in tried[1:]} == {0, 1}
    assert sorted(itertools.chain(*tried)) == sorted(["c0", "c1", "c2"] * 3)


# --- what fails around it ----------------------------------------------------------------------


async def test_a_killed_mcp_server_costs_its_calls_and_nothing_else():
    command = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
    tools = AdvancedToolProcessor(
        tools=[ping], config={"mcp_servers": {"clock": command}}, builtin_tools=False
    )
    statuses = []

    async def only(session):
        ask = FunctionCall("get_current_time", {"timezone": "Asia/Tokyo"})
        await session.wait_for_input("audio")
        (answer,) = await session.call(ask)
        statuses.append(answer.status)
        server = next(
            p for p in psutil.Process().children() if "mcp_server_time" in " ".join(p.cmdline())
        )
        server.kill()
        (answer,) = await session.call(ask)
        statuses.append(answer.status)
        await pinged(session, 7)
        await session.turn_complete()

    async with tools:
        assert await tools.ready(30)
        async with Session([only], tools, alone=False) as talk:
            talk.speak()
            await talk.hears_turns()
    assert statuses[0] == "ok"
    assert statuses[1] in {"ok", "unavailable"}
    assert len(talk.simulator.connections) == 1


async def test_a_tool_that_blocks_the_event_loop_is_waited_for_and_forgotten():
    @tool(effect="read")
    async def block() -> str:
        """Blocks."""
        time.sleep(1)  # noqa: ASYNC251 - the very thing
        return "at last"

    async def only(session):
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("block", id="b"), FunctionCall("ping", id="p"))
        await session.expect("p", status="ok")
        await session.expect("b", response={"result": "at last"})
        await pinged(session, 7)
        await session.turn_complete()

    tools = AdvancedToolProcessor(tools=[block, ping], builtin_tools=False)
    async with Session([only], tools) as talk:
        talk.speak(50)
        await talk.hears_turns()
    assert talk.frames == list(range(50))


async def test_a_full_disk_under_the_log_costs_the_log_and_nothing_else(capfd):
    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        await session.drop()

    async def second(session):
        await pinged(session, 7)
        await session.turn_complete()

    logger = logging.getLogger("leonidas_tools")
    with open("/dev/full", "w") as full:  # noqa: ASYNC230, PTH123 - a device
        handler = logging.StreamHandler(full)
        logger.addHandler(handler)
        try:
            async with Session([first, second], pinging()) as talk:
                talk.speak()
                await talk.hears_turns()
        finally:
            logger.removeHandler(handler)
            with contextlib.suppress(OSError):
                full.flush()
            with contextlib.suppress(OSError):
                full.close()
    assert "No space left on device" in capfd.readouterr().err


# --- servers that behave oddly ------------------------------------------------------------------

KEEPALIVE = {"ping_interval": 20, "ping_timeout": 60, "close_timeout": 1}


@on_elastic_loop
async def test_pongs_that_stall_for_thirty_seconds_are_waited_for():
    async def only(session):
        await session.wait_for_input("audio")
        await session.stall_pongs(30)
        await session.wait_for_input(containing="later")
        await pinged(session)
        await session.turn_complete()

    async with Session([only], pinging(), client=KEEPALIVE) as talk:
        talk.speak()
        await talk.hears_event("connection_opened")
        await passing(45, talk.simulator)
        talk.say(ProcessorPart("later", substream_name="realtime"))
        await talk.hears_turns()
    assert [event["event"] for event in talk.events] == ["connection_opened"]


@on_elastic_loop
async def test_a_server_that_falls_silent_is_left_and_every_outcome_sent():
    gate = Gate()

    async def first(session):
        await session.session_resumption("handle")
        await session.send_calls(FunctionCall("wait_non_blocking", {"n": 4}, id="c"))
        await session.wait_for_input(containing="called")
        await session.go_silent()

    async def second(session):
        gate.open()
        await talk.simulator.until(lambda: len(outcomes_told(talk.simulator)) == 1)
        await session.turn_complete()

    async with Session([first, second], gate.tools(), client=KEEPALIVE) as talk:
        talk.speak()
        await talk.hears_calls()
        talk.say(TEXT)
        await asyncio.sleep(0.05)
        await passing(100)
        await talk.hears_turns()
    assert gate.ran == {4: 1}


@on_elastic_loop
async def test_a_handle_that_is_refused_costs_the_memory_and_nothing_else():
    gate = Gate()

    async def first(session):
        await session.session_resumption("handle")
        await session.send_calls(FunctionCall("wait_non_blocking", {"n": 4}, id="c"))
        await session.wait_for_input(containing="called")
        await session.expire_handles()
        await session.drop()

    async def second(session):
        assert session.resumed_from is None
        gate.open()
        await talk.simulator.until(lambda: len(outcomes_told(talk.simulator)) == 1)
        await session.turn_complete()

    async with Session([first, second], gate.tools()) as talk:
        talk.speak()
        await talk.hears_calls()
        talk.say(TEXT)
        await talk.hears_event("connection_renewed")
        asyncio.get_running_loop().advance(5)  # the reply to what was said is no longer expected
        await talk.hears_turns()
    assert [refusal.code for refusal in talk.simulator.refusals] == [1008]


# --- listeners that leave -----------------------------------------------------------------------


class LeavesError(Exception):
    pass


@pytest.mark.parametrize("way", ["cancelled", "breaks", "raises"])
async def test_nothing_is_left_when_the_listener_leaves(way):
    gate = Gate()

    async def only(session):
        await session.send_calls(FunctionCall("wait_non_blocking", {"n": 1}))
        await session.say("A long story", audio_seconds=0.5)
        await session.wait_for_close()

    talk = Session([only], gate.tools())

    async def listen():
        async with processor.context():
            async for part in talk.agent()(talk.input()):
                if part.function_call is None:
                    continue
                if way == "raises":
                    raise LeavesError
                if way == "breaks":
                    break
                await asyncio.Event().wait()

    talk.speak(3)
    async with asyncio.timeout(20), talk.simulator:
        listening = asyncio.create_task(listen())
        if way == "cancelled":
            await talk.simulator.until(lambda: bool(talk.simulator.calls))
            listening.cancel()
        with contextlib.suppress(LeavesError, asyncio.CancelledError):
            await listening
        await talk.simulator.closed()
        assert other_tasks() == set()
    gc.collect()
    assert talk.simulator.violations == ()


# --- slow listeners, interruptions --------------------------------------------------------------


async def test_a_listener_that_does_not_read_holds_nothing_back():
    async def only(session):
        for n in range(20):
            await session.say("bla", audio_seconds=0.5)
            await pinged(session, n)
        await session.wait_for_input("audio", count=500)
        await session.turn_complete()

    async with Session([only], pinging()) as talk:
        talk.listens.clear()
        talk.speak(500)
        await talk.simulator.finished()
        assert len(talk.heard) == 1
        talk.listens.set()
        await talk.hears_turns()
    assert talk.frames == list(range(500))
    assert sum(_is_speech(part) for part in talk.heard) == 20 * 5


async def test_a_listener_that_reads_after_an_interruption_hears_no_stale_speech():
    async def only(session):
        await session.wait_for_input("audio")
        await session.say("Once upon a time", audio_seconds=2)
        await session.interrupt()
        await session.say("Yes?", audio_seconds=0.2)
        await session.turn_complete()

    async with Session([only], pinging()) as talk:
        talk.listens.clear()
        talk.speak()
        await talk.simulator.finished()
        await asyncio.sleep(0.1)
        talk.listens.set()
        await talk.hears_turns()
    kinds = ["!" if p.metadata.get("interrupted") else "s" for p in talk.heard
             if _is_speech(p) or p.metadata.get("interrupted")]  # fmt: skip
    assert kinds == ["!", "s", "s"]


def _is_speech(part):
    return part.part.inline_data is not None


# --- how much, and how long ---------------------------------------------------------------------


async def test_large_results_that_are_ready_together_all_arrive():
    @tool(effect="read")
    async def large(n: int) -> str:
        """Says a lot."""
        return f"{n} " + "x" * 60_000

    async def only(session):
        await session.wait_for_input("audio")
        calls = [FunctionCall("large", {"n": n}, id=f"c{n}") for n in range(20)]
        answers = await session.call(*calls)
        assert [int(a.response["result"].split()[0]) for a in answers] == list(range(20))
        assert {len(a.response["result"]) for a in answers} <= {60_002, 60_003}
        await session.turn_complete()

    tools = AdvancedToolProcessor(tools=[large], builtin_tools=False)
    async with Session([only], tools) as talk:
        talk.speak()
        await talk.hears_turns()
    sizes = [len(str(responses)) for responses in responses_in(talk.simulator)]
    assert max(sizes) < 1 << 20, sizes


@on_elastic_loop
async def test_of_sound_that_waits_too_long_the_oldest_is_dropped_and_counted():
    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio", count=5)
        talk.simulator.pause_listening()
        await session.drop()

    async def second(session):
        await session.wait_for_input("audio", count=50)
        await session.turn_complete()

    async with Session([first, second], pinging(), held_audio_seconds=1.01) as talk:
        talk.speak(5)
        await talk.hears_event("connection_lost")
        talk.speak(200)  # 4 s
        await passing(2)
        talk.simulator.resume_listening()
        await passing(2)
        await talk.hears_turns()
    first_heard = [n for n in talk.frames if n < 5]
    assert first_heard[:5] == [0, 1, 2, 3, 4]
    assert talk.frames[-50:] == list(range(155, 205))
    assert talk.events[-1]["audio_dropped"] in range(150, 156)


@on_elastic_loop
async def test_the_microphone_is_gated_for_a_bounded_time_while_the_model_waits():
    gate = Gate()

    async def only(session):
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("wait_blocking", {"n": 1}, id="c"))
        await session.wait_for_input("audio", count=10)
        gate.open()
        await session.wait_for_answers()
        await session.turn_complete()

    tools = gate.tools(("BLOCKING",))
    async with Session([only], tools, gate_microphone_seconds=5.0) as talk:
        talk.speak()
        await talk.hears_calls()
        talk.speak(10)
        await passing(4)
        assert talk.frames == [0]
        await passing(2)
        await talk.hears_turns()
    assert talk.frames == list(range(11))


# --- tools that the server refuses --------------------------------------------------------------


@pytest.mark.parametrize("generation", ["3.8-live", "2.5"])
async def test_a_session_lives_on_with_its_tools_where_the_server_refuses_others(generation):
    tools = pinging()
    bad = tool(name="bad", effect="read")(lambda: "bad")

    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        await session.turn_complete()
        talk.simulator.refuse_connections(1, close_code=1007, reason="bad tools")
        tools.registry.register(bad)
        if generation == "3.8-live":
            await session.wait_for_context_update("bad")
            await session.close(1007, "bad tools")
        else:
            await session.wait_for_close()

    async def second(session):
        assert session.resumed_from == 1
        assert set(session.declared) == {"ping"}
        await pinged(session, 7)
        await session.turn_complete()

    async with Session([first, second], tools, generation=generation) as talk:
        talk.speak()
        await talk.hears_turns(2)
    assert [r.code for r in talk.simulator.refusals] == [1007]


async def test_a_refused_update_of_tools_is_tried_once_more_with_a_setup():
    tools = pinging()

    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        tools.registry.register(tool(name="new", effect="read")(lambda: "new"))
        await session.wait_for_context_update("new")
        await session.close(1007, "no contextUpdate")

    async def second(session):
        assert session.resumed_from == 1
        (answer,) = await session.call(FunctionCall("new"))
        assert answer.response["result"] == "new"
        await session.turn_complete()

    async with Session([first, second], tools) as talk:
        talk.speak()
        await talk.hears_turns()
    assert len(talk.simulator.context_updates) == 1


# --- what a server means ------------------------------------------------------------------------


async def test_a_call_that_is_taken_back_after_a_resume_has_no_outcome_and_can_be_made_again():
    gate = Gate()

    async def first(session):
        await session.session_resumption("handle")
        await session.send_calls(FunctionCall("wait_non_blocking", {"n": 4}, id="c"))
        await session.wait_for_input(containing="called")
        await session.drop()

    async def second(session):
        await session.cancel("c")
        await session.wait_for_input(containing="again")
        await session.send_calls(FunctionCall("wait_non_blocking", {"n": 4}, id="d"))
        gate.open()
        await session.wait_for_answers("d")
        await session.turn_complete()

    async with Session([first, second], gate.tools()) as talk:
        talk.speak()
        await talk.hears_calls()
        talk.say(TEXT)
        await talk.hears(lambda part: part.tool_cancellation == "c")
        talk.say(ProcessorPart("again", substream_name="realtime"))
        await talk.hears_turns()
    assert outcomes_told(talk.simulator) == []


async def test_a_burst_of_sound_on_an_open_connection_arrives_whole():
    async def only(session):
        await session.wait_for_input("audio", count=2500)
        await session.turn_complete()

    async with Session([only], pinging()) as talk:
        await talk.hears_event("connection_opened")
        talk.speak(2500)  # 50 s
        await talk.hears_turns()
    assert talk.frames == list(range(2500))


async def test_a_failing_microphone_is_reported_to_a_slow_listener():
    async def only(session):
        await session.say("One", audio_seconds=0.2)
        await session.wait_for_close()

    talk = Session([only], pinging())

    async def microphone():
        yield frame()
        raise LeavesError("unplugged")

    async def listen():
        async with asyncio.timeout(20), talk.simulator, processor.context():
            async for _ in talk.agent().model(microphone()):
                await talk.simulator.closed()

    with pytest.raises(LeavesError, match="unplugged"):
        await listen()


async def held(scripts, tools, *, generation="2.5", server=None, speed=math.inf, **options):
    """Plays one script for each connection; strictly."""
    scenario = Scenario(connections=scripts)
    async with LiveSimulator(scenario, speed=speed, generation=server) as simulator:
        if server == "vertex":
            client = Client(api_key="any", vertexai=True, http_options=simulator.http_options())
            options["client"] = client
        talk = await Talk(simulator, tools, generation=generation, **options).run(len(scripts))
    return simulator, talk


async def test_a_call_without_an_id_that_comes_in_another_form_after_a_resume_is_answered():
    looked = []
    wait = asyncio.Event()

    @tool(effect="read")
    async def look(seat: int) -> str:
        """Looks at a seat."""
        looked.append(seat)
        await wait.wait()
        return f"seat {seat}"

    loop = asyncio.get_running_loop()

    async def first(session):
        await session.turn_complete()
        await session.send_calls(FunctionCall("look", {"seat": 4}), in_model_turn=True)
        await session.wait_for_input(containing="called")
        await session.drop()

    async def second(session):
        await session.send_calls(FunctionCall("look", {"seat": 4}))
        loop.call_soon_threadsafe(wait.set)
        await session.wait_for_answers()
        await session.turn_complete()

    tools = AdvancedToolProcessor(tools=[look], builtin_tools=False)
    simulator, _ = await held([first, second], tools, server="vertex", user=says_when_called())
    assert looked == [4]
    assert [r["response"]["result"] for (r,) in responses_in(simulator)] == ["seat 4"]
    assert outcomes_told(simulator) == []
