"""What may happen in a generated session, step by step."""

import asyncio
from dataclasses import dataclass

from hypothesis import strategies as st

from leonidas_tools.simulator import ABSENT, FunctionCall

ODD = (
    {"news": {"of": "tomorrow"}},
    "no JSON",
    "[]",
    {},
    {"toolCall": {}},
    {"serverContent": {"modelTurn": {}}},
    {"serverContent": {"modelTurn": {"parts": [{"unheardOf": {}}]}}},
    {"toolCallCancellation": {"ids": ["nobody's"]}},
    {"toolCallCancellation": {}},
    {"goAway": None},
    {"sessionResumptionUpdate": {"resumable": False}},
    {"usageMetadata": {"totalTokenCount": 7}},
    {"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}},
)


_DEAF_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One call of a session, and the tool it is of: each has its own, which tells it apart."""

    effect: str = "read"
    behavior: str | None = None
    scheduling: str | None = None
    seconds: float = 0.0
    way: str = "works"

    @property
    def status(self):
        """How it ends, if nobody switches the tool off."""
        ends = {"raises": "failed", "bad": "invalid_argument", "unknown": "not_found"}
        return ends.get(self.way, "ok")

    def call(self, number, call_id):
        """What the model sends."""
        args = {"bad": {"n": "seven"}, "bare": ABSENT, "null": None}.get(self.way, {"n": number})
        return FunctionCall(name_of(number), args, id=call_id, undeclared=True)


def name_of(number):
    return f"tool_{number}"


planned = st.builds(
    Planned,
    effect=st.sampled_from(["read", "idempotent", "once", "once"]),
    behavior=st.sampled_from([None, None, "BLOCKING", "NON_BLOCKING"]),
    scheduling=st.sampled_from([None, None, "INTERRUPT", "SILENT"]),
    seconds=st.sampled_from([0.0, 0.03, 0.1, 0.3, 0.6]),
    way=st.sampled_from(
        ["works"] * 6 + ["reports"] * 2 + ["raises", "sync", "bad", "unknown", "bare", "null"]
    ),
)


@dataclass(frozen=True)
class Ask:
    """Calls that were not made yet, in one message or in two forms of it."""

    count: int
    form: str

    async def play(self, show, session):
        calls = show.new_calls(self.count)
        if calls:
            await session.send_calls(*calls, in_model_turn=self.form in {"model_turn", "both"})
            if self.form == "both":
                await session.send_calls(*calls)
            elif self.form == "twice" and show.has_ids:
                await session.wait_for_input("audio", count=3)
                await session.send_calls(*calls)


@dataclass(frozen=True)
class Repeat:
    """The model makes calls again that it knows no outcome of."""

    count: int

    async def play(self, show, session):
        if calls := show.repeated_calls(session, self.count):
            await session.send_calls(*calls)


@dataclass(frozen=True)
class Again:
    """The model makes calls again that were answered, before the user has said anything."""

    count: int

    async def play(self, show, session):
        if calls := show.answered_calls(session, self.count):
            await session.send_calls(*calls)
            await session.wait_for_answers()


@dataclass(frozen=True)
class Answers:
    async def play(self, show, session):
        await session.wait_for_answers()


@dataclass(frozen=True)
class Cancel:
    """Some of the calls under way are taken back."""

    count: int

    async def play(self, show, session):
        if ids := show.cancellable(session)[: self.count]:
            await session.cancel(*ids)


@dataclass(frozen=True)
class CancelLost:
    """Calls of an earlier connection of this session are taken back."""

    async def play(self, show, session):
        if ids := show.cancel_lost(session):
            await session.send({"toolCallCancellation": {"ids": ids}})


@dataclass(frozen=True)
class Interrupt:
    cancel: bool

    async def play(self, show, session):
        show.heard_user.add(session.number)
        await session.interrupt(cancel=self.cancel)


@dataclass(frozen=True)
class Speak:
    """The model says something, and may end its turn."""

    ends: bool

    async def play(self, show, session):
        await session.say("Let me see.", audio_seconds=0.06)
        if self.ends:
            await session.turn_complete()


@dataclass(frozen=True)
class Transcript:
    async def play(self, show, session):
        show.heard_user.add(session.number)
        await session.input_transcription("And then?")


@dataclass(frozen=True)
class Odd:
    number: int

    async def play(self, show, session):
        await session.send(ODD[self.number])


@dataclass(frozen=True)
class Listen:
    """Some frames of the microphone pass."""

    frames: int

    async def play(self, show, session):
        await session.wait_for_input("audio", count=self.frames)


@dataclass(frozen=True)
class Handle:
    async def play(self, show, session):
        await session.session_resumption(
            None if session.pending else session._connection.new_handle()
        )


@dataclass(frozen=True)
class Switch:
    """A tool is switched off, or on again."""

    number: int

    async def play(self, show, session):
        await asyncio.to_thread(show.switch, self.number)


@dataclass(frozen=True)
class GoAway:
    seconds: float
    close: bool

    async def play(self, show, session):
        await session.go_away(self.seconds, close=self.close)


@dataclass(frozen=True)
class End:
    """The connection ends; the handles, the server and the network may be gone as well."""

    code: int
    expire: bool
    refusals: int
    http_status: int | None
    away: bool
    deaf: bool

    async def play(self, show, session):
        if self.expire:
            await session.expire_handles()
        if self.refusals:
            await session.refuse_connections(self.refusals, http_status=self.http_status)
        if self.away:
            await session.stop_listening(0.01)
        if self.deaf:  # what the client sends now is lost
            session._connection.ignore_client(None)
            await asyncio.sleep(_DEAF_SECONDS)
        else:
            await _read_all(session)
        await (
            session.drop() if self.deaf or not self.code else session.close(self.code, "generated")
        )
        await session._left.wait()


async def _read_all(session):
    """Reads what has come: a pong tells the client that it has, and it is not to be thrown away."""
    transport = session._connection._websocket.transport
    transport.pause_reading()
    for _ in range(3):
        await asyncio.sleep(0)
    transport.resume_reading()  # in the loop's next turn, when the closing frame is on its way


ask = st.builds(Ask, st.integers(1, 4), st.sampled_from(["call", "model_turn", "both", "twice"]))
repeat = st.builds(Repeat, st.integers(1, 3))
again = st.builds(Again, st.integers(1, 3))
handles = st.sampled_from([Handle(), Answers()])
small = st.one_of(
    ask,
    ask,
    st.builds(Listen, st.integers(1, 12)),
    st.builds(Speak, st.booleans()),
    st.just(Answers()),
    st.builds(Cancel, st.integers(1, 2)),
    st.just(CancelLost()),
    st.builds(Interrupt, st.booleans()),
    st.just(Transcript()),
    st.builds(Odd, st.integers(0, len(ODD) - 1)),
    st.just(Handle()),
    st.builds(Switch, st.integers(0, 11)),
    repeat,
)
end = st.one_of(
    st.builds(
        End,
        code=st.sampled_from([0, 1011, 1008]),
        expire=st.sampled_from([False, False, False, True]),
        refusals=st.sampled_from([0, 0, 0, 1, 2]),
        http_status=st.sampled_from([None, 503, 429]),
        away=st.sampled_from([False, False, False, True]),
        deaf=st.sampled_from([False, False, True]),
    ),
    st.builds(GoAway, st.sampled_from([0.05, 0.3, 2.0]), st.booleans()),
)


@st.composite
def scripts(draw):
    """The steps of a whole session: legs with calls, each but the last with its end."""
    steps = [Speak(ends=True)] if draw(st.sampled_from([True, True, True, False])) else []
    for number in range(draw(st.sampled_from([1, 2, 3, 4, 2, 2]))):
        if number:
            steps += [draw(end), *draw(st.lists(again | repeat, max_size=2))]
            if draw(st.sampled_from([False, False, True])):  # lost once more, before anything else
                steps += [draw(handles), draw(end), *draw(st.lists(again, max_size=1))]
        if draw(st.sampled_from([False, False, True])):  # its answer is on its way at the end
            steps += [Listen(draw(st.integers(5, 30))), draw(ask), Listen(draw(st.integers(1, 4)))]
        else:
            steps += [draw(ask), *draw(st.lists(small, min_size=1, max_size=6))]
    return tuple(steps)
