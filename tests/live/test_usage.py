"""Tokens of a live session, on the real client against the simulator."""

import asyncio
import contextlib
import itertools
import math
from dataclasses import asdict

import jsonschema_rs
import pytest
from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai import errors
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools import (
    AdvancedToolProcessor,
    GeminiLiveProcessor,
    LiveToolSession,
    ToolSession,
    tool,
)
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.live import session as session_module
from leonidas_tools.live.usage import MAX_TOKENS, TurnUsage, Usage
from leonidas_tools.monitoring.event_stream import events_schema
from leonidas_tools.simulator import (
    Call,
    LiveSimulator,
    Say,
    Scenario,
    Send,
    TurnComplete,
    WaitForClose,
    WaitForInput,
)
from leonidas_tools.store import Store
from tests.live.test_attach import connected
from tests.live.test_session_with_simulator import model as upstream_model
from tests.tasks import other_tasks

MODEL = "gemini-3.8-live"
PRICES = {MODEL: {"input": {"text": 1, "cached": 0.1}, "output": {"text": 2, "audio": 10}}}
COUNTED = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 40,
    "responseTokenCount": 25,
    "totalTokenCount": 125,
    "thoughtsTokenCount": 5,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 90}],
    "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 20}, {"modality": "TEXT"}],
}
KINDS = {
    "input": {"text": 60, "cached": 40},
    "output": {"audio": 20, "other": 5, "thoughts": 5},
}
USAGE = ["usage", "usage_limit", "session_ended"]


def turn_of(usage=COUNTED, said="Hello."):
    """The steps of a turn that ends as those of real servers do."""
    over = {"serverContent": {"turnComplete": True}}
    return [Say(said, audio_seconds=0), Send({**over, "usageMetadata": usage})]


def tokens(count):
    return {"promptTokenCount": count, "totalTokenCount": count}


class Talk:
    """A conversation whose user types a text for each turn, and hangs up when all is played."""

    def __init__(self, settings=None, *, tools=None):
        self.tools = tools or AdvancedToolProcessor(config=settings or {}, builtin_tools=False)
        self.events = []
        self.parts = []

    async def run(self, steps, *, session=None, texts=("Hello",), live=None):
        async with (
            asyncio.timeout(30),
            self.tools,
            LiveSimulator(Scenario(steps), generation="3.8-live", speed=math.inf) as simulator,
        ):
            self.simulator = simulator
            if live is None:
                live = GeminiLiveProcessor(
                    MODEL, api_key="simulated", http_options=simulator.http_options()
                )
            else:
                live = live(simulator, self.tools)
            listening = asyncio.create_task(self._listen())
            await asyncio.sleep(0)
            agent = LiveToolSession(live, self.tools, session=session)
            async with processor.context():
                self.parts += [part async for part in agent(self._user(texts))]
            await listening
        assert other_tasks() == set()
        return self

    async def _user(self, texts):
        for text in texts:
            yield ProcessorPart(text, substream_name="realtime")
        await self.simulator.finished()

    async def _listen(self):
        validate = jsonschema_rs.validator_for(events_schema()).validate
        async for event in self.tools.events.subscribe(kinds=USAGE):
            validate(event)
            self.events.append(event)
            if event["event"] == "session_ended":
                return

    def told(self, kind):
        without = {"version", "sequence", "at", "event", "session"}
        return [
            {key: value for key, value in event.items() if key not in without}
            for event in self.events
            if event["event"] == kind
        ]

    @property
    def texts(self):
        return [each.text for each in self.simulator.inputs if each.kind == "text"]


async def test_each_turn_is_an_event():
    talk = Talk({"usage": {"prices": PRICES, "currency": "EUR"}})
    steps = [WaitForInput("text"), *turn_of(), *turn_of(tokens(7))]
    await talk.run(steps)
    first = {"input_tokens": 100, "output_tokens": 30, "tokens": KINDS, "session_tokens": 130}
    cost = (60 * 1 + 40 * 0.1 + 30 * 10) / 1e6
    second = {
        "input_tokens": 7,
        "output_tokens": 0,
        "tokens": {"input": {"other": 7}, "output": {}},
    }
    both = {"model": MODEL, "currency": "EUR"}
    assert talk.told("usage") == [
        {"turn": 1, **both, **first, "cost": cost, "session_cost": cost},
        {"turn": 2, **both, **second, "session_tokens": 137, "cost": 7e-6,
         "session_cost": pytest.approx(cost + 7e-6)},
    ]  # fmt: skip
    page = talk.tools.monitor.prometheus().exposition().decode()
    labels = f'direction="output",modality="audio",model="{MODEL}"'
    assert f"leonidas_live_tokens_total{{{labels}}} 20.0" in page


async def test_repeated_counts_are_counted_once():
    twice = {"serverContent": {"turnComplete": True}, "usageMetadata": COUNTED}
    steps = [
        WaitForInput("text"),
        Send({"usageMetadata": COUNTED}),
        *turn_of(),
        Send(twice),
        Send({"usageMetadata": COUNTED}),
    ]
    talk = await Talk().run(steps)
    assert talk.told("usage")[-1]["session_tokens"] == 130


async def test_upstreams_processor_is_counted():
    steps = [WaitForInput("text"), *turn_of()]
    talk = await Talk().run(steps, live=upstream_model)
    (told,) = talk.told("usage")
    assert (told["model"], told["tokens"]) == ("unknown", KINDS)


async def test_a_limit_warns_and_ends_the_session():
    settings = {"usage": {"session": {"tokens": 1000}}}
    steps = [
        WaitForInput("text"),
        *turn_of(tokens(850)),
        WaitForInput("text", containing="about 15 percent of our limit left"),
        *turn_of(tokens(200)),
        WaitForInput("text", containing="The conversation ends now"),
        *turn_of(tokens(50), said="Goodbye!"),
    ]
    talk = await Talk(settings).run(steps)
    about = {"limit": "session", "unit": "tokens", "most": 1000}
    assert talk.told("usage_limit") == [
        {"state": "low", **about, "used": 850},
        {"state": "reached", **about, "used": 1050},
    ]
    assert talk.told("session_ended") == [{"reason": "usage_limit"}]
    heard = [part.text for part in talk.parts if part.substream_name == "output_transcription"]
    assert heard[-1] == "Goodbye!"


async def test_the_sentence_is_in_the_language_of_the_session():
    session = ToolSession(user="ana")
    session.put(SessionPolicy(language="pt-BR"))
    steps = [
        WaitForInput("text"),
        *turn_of(tokens(900)),
        WaitForInput("text", containing="cerca de 10 por cento"),
        TurnComplete(),
    ]
    await Talk({"usage": {"user_day": {"tokens": 1000}}}).run(steps, session=session)


async def test_a_user_who_reconnects_has_no_fresh_limit():
    talk = Talk({"usage": {"user_day": {"tokens": 1000}}})
    closing = [WaitForInput("text", containing="ends now"), *turn_of(tokens(1), said="Bye.")]
    steps = [WaitForInput("text"), *turn_of(tokens(1000)), *closing]
    await talk.run(steps, session=ToolSession(user="ana"))
    refused = Talk(tools=talk.tools)
    await refused.run([], session=ToolSession(user="ana"))
    assert refused.simulator.connections == ()
    assert refused.told("session_ended") == [{"reason": "usage_limit"}]
    served = Talk(tools=talk.tools)
    await served.run([WaitForInput("text"), *turn_of(tokens(5))], session=ToolSession(user="bo"))
    assert served.told("session_ended") == [{}]


@pytest.mark.parametrize("limit", ["session", "user_day"])
async def test_another_process_knows_what_was_used(tmp_path, limit):
    store = {"enabled": True, "url": f"sqlite:///{tmp_path}/kept.db"}
    settings = {"store": store, "usage": {limit: {"tokens": 1000}, "prices": PRICES}}
    closing = [WaitForInput("text", containing="ends now"), *turn_of(tokens(1), said="Bye.")]
    steps = [WaitForInput("text"), *turn_of(tokens(1000)), *closing]
    await Talk(settings).run(steps, session=ToolSession("s", user="ana"))
    again = Talk(settings)
    await again.run([], session=ToolSession("s", user="ana"))
    assert again.told("session_ended") == [{"reason": "usage_limit"}]
    async with Store(f"{tmp_path}/kept.db") as kept:
        (summary,) = await kept.sessions()
        replayed = await kept.replay("s", user="ana")
    assert (summary.input_tokens, summary.output_tokens, summary.calls) == (1001, 0, 0)
    assert summary.cost == pytest.approx(1001e-6)
    assert [(each.kind, each.data["turn"]) for each in replayed] == [("usage", 1), ("usage", 2)]


@pytest.mark.parametrize(
    ("settings", "turns"),
    [
        ({"session": {"tokens": 10**6}}, [None, None, None]),
        ({"session": {"tokens": 10**6}}, [{}, tokens(0), {"promptTokenCount": -1}]),
        ({"session": {"cost": 5}, "prices": {"another": PRICES[MODEL]}}, [tokens(1)]),
        ({"session": {"tokens": 10**6}}, [tokens(2**40)]),
    ],
    ids=["no counts", "none above 0", "no price", "huge"],
)
async def test_absurd_counts_end_a_limited_session(settings, turns):
    said = [turn_of(each) if each is not None else [Say("Hm."), TurnComplete()] for each in turns]
    closing = [WaitForInput("text", containing="ends now"), *turn_of(said="Bye.")]
    talk = Talk({"usage": settings})
    await talk.run([WaitForInput("text"), *itertools.chain(*said), *closing])
    assert talk.told("session_ended") == [{"reason": "usage_limit"}]


async def test_a_call_does_not_delay_the_end(monkeypatch):
    monkeypatch.setattr(session_module, "_CLOSING_SECONDS", 0.1)

    @tool(effect="read")
    async def wait() -> None:
        """Waits for ever."""
        await asyncio.Event().wait()

    limited = {"usage": {"session": {"tokens": 10}}}
    talk = Talk(tools=AdvancedToolProcessor([wait], limited, builtin_tools=False))
    closing = [WaitForInput("text", containing="ends now"), Call.one("wait"), WaitForClose()]
    await talk.run([WaitForInput("text"), *turn_of(tokens(11)), *closing])
    assert talk.told("session_ended") == [{"reason": "usage_limit"}]


async def test_a_limit_closes_an_attached_session():
    tools = AdvancedToolProcessor(config={"usage": {"session": {"tokens": 10}}})
    steps = [
        WaitForInput("text"),
        *turn_of(tokens(11)),
        WaitForInput("text", containing="ends now"),
        *turn_of(tokens(1), said="Goodbye!"),
    ]
    heard = []
    async with (
        LiveSimulator(Scenario(steps), generation="3.8-live", speed=math.inf) as simulator,
        connected(simulator, tools) as session,
        tools.attach(session, model=MODEL),
    ):
        await session.send_realtime_input(text="Hello")
        with contextlib.suppress(errors.APIError):
            while True:
                heard += [message async for message in session.receive()]
    assert heard[-1].usage_metadata.prompt_token_count == 1


COUNTS = st.none() | st.integers(-5, 5) | st.sampled_from([MAX_TOKENS, 2**70, -(2**70)])
DETAILS = st.lists(
    st.fixed_dictionaries(
        {"modality": st.sampled_from(["TEXT", "AUDIO", "DOCUMENT", None]), "token_count": COUNTS}
    ),
    max_size=3,
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        **{
            f"{name}_token_count": COUNTS
            for name in (
                "prompt", "cached_content", "response", "tool_use_prompt", "thoughts", "total",
            )
        },
        "prompt_tokens_details": st.none() | DETAILS,
        "response_tokens_details": st.none() | DETAILS,
    },
)  # fmt: skip
PARTS = st.one_of(
    st.just(ProcessorPart("Hello", role="model")),
    st.just(ProcessorPart("", metadata={"turn_complete": True})),
    st.just(ProcessorPart("", metadata={"interrupted": True})),
    METADATA.map(lambda given: ProcessorPart("", metadata={"usage_metadata": given})),
)


@given(st.lists(PARTS, max_size=30))
def test_the_turns_sum_to_the_session(parts):
    turns, by_turn, session = TurnUsage(), {}, Usage()
    greatest = {}
    for part in parts:
        more = turns.add(part)
        if more is None:
            continue
        assert all(count >= 0 for count in asdict(more).values())
        by_turn[turns.turn] = by_turn.get(turns.turn, Usage()) + more
        session += more
        given_ = Usage.from_metadata(part.metadata["usage_metadata"])
        for name, count in asdict(given_).items():
            key = turns.turn, name
            greatest[key] = max(greatest.get(key, 0), count)
    assert sum(by_turn.values(), Usage()) == session
    counted = {(n, name): c for n, u in by_turn.items() for name, c in asdict(u).items()}
    assert counted == greatest
