"""What a connection is set up with, and where it leads."""

import asyncio
import ssl

import pytest
from genai_processors import processor
from google.genai import types

from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.live.gemini import GeminiLiveProcessor
from leonidas_tools.live.gradual_socket import GradualSocket
from leonidas_tools.session.speech import SpeechState
from leonidas_tools.simulator import LiveSimulator, Scenario
from tests.live import vertex
from tests.live.generated.virtual import Arena, VirtualEventLoop
from tests.live.talking import Talk, event_of, frame, held, sent_by_client


async def speaks(session):
    await session.say("Here I am.")
    await session.turn_complete()


def ping():
    """Answers."""
    return "pong"


async def test_the_tools_of_the_configuration_stay_declared_when_others_change():
    tools = AdvancedToolProcessor(builtin_tools=False)
    mine = types.FunctionDeclaration(name="mine")
    config = {
        "tools": [
            types.Tool(google_search=types.GoogleSearch()),
            types.Tool(function_declarations=[mine]),
        ]
    }

    async def only(session):
        await session.wait_for_input("audio")
        tools.registry.register(tool(effect="read")(ping))
        update = await session.wait_for_context_update("ping")
        assert update.tools.keys() == {"mine", "ping"}

    simulator, _ = await held([only], tools, generation="3.8-live", config=config)
    ((_, update),) = sent_by_client(simulator, "contextUpdate")
    assert update["tools"]["tools"][0] == {"googleSearch": {}}


TRANSCRIPTIONS = ("inputAudioTranscription", "outputAudioTranscription")


@pytest.mark.parametrize(
    ("options", "asked_for"),
    [
        ({}, TRANSCRIPTIONS),
        ({"transcribed": False}, ()),
        ({"transcribed": False, "config": {"output_audio_transcription": {}}}, TRANSCRIPTIONS[1:]),
        ({"config": {"response_modalities": ["TEXT"]}}, TRANSCRIPTIONS[:1]),
    ],
)
async def test_speech_is_transcribed_unless_the_program_says_otherwise(options, asked_for, caplog):
    async def talks(session):
        await session.input_transcription("Hello.")
        await speaks(session)

    simulator, _ = await held([talks], **options)
    assert [each for each in TRANSCRIPTIONS if each in simulator.setups[0]] == [*asked_for]
    warned = [each for each in TRANSCRIPTIONS if f"has not set {each}" in caplog.text]
    assert warned == [each for each in TRANSCRIPTIONS if each not in asked_for]


def test_vertex_ai_is_reached_in_the_version_that_google_names_for_it(monkeypatch):
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-central1")
    live = GeminiLiveProcessor("gemini-3.8-live")
    assert version_of(live) == "v1beta1"
    assert live.profile.name == "vertex-3.8"


def test_options_may_be_given_as_a_mapping_and_keep_what_they_say():
    options = {"api_version": "v1alpha", "async_client_args": {"ping_timeout": 7}}
    live = GeminiLiveProcessor("gemini-3.8-live", api_key="x", http_options=options)
    given = live.client._api_client._http_options.async_client_args
    assert version_of(live) == "v1alpha"
    assert given.pop("logger").name == "leonidas_tools.live.gemini.wire"
    assert given.keys() >= {"ssl", "verify"}
    given = {key: given[key] for key in given if key not in ("ssl", "verify")}
    assert given == {
        "ping_interval": 20,
        "ping_timeout": 7,
        "close_timeout": 1,
        "max_size": 16 * 1024**2,
        "compression": None,
        "create_connection": GradualSocket,
    }


def test_sessions_share_what_is_slow_to_make_for_tls():
    one, other = (GeminiLiveProcessor("gemini-3.8-live", api_key="x") for _ in range(2))
    assert one.client is not other.client
    for key in ("ssl", "verify"):
        assert options_of(one)[key] is options_of(other)[key]
    assert options_of(one)["ssl"] is not options_of(one)["verify"]


def test_a_tls_context_of_the_application_is_kept():
    mine = ssl.create_default_context()
    options = {"async_client_args": {"ssl": mine}}
    live = GeminiLiveProcessor("gemini-3.8-live", api_key="x", http_options=options)
    assert live.client._api_client._websocket_ssl_ctx["ssl"] is mine


def options_of(live):
    return live.client._api_client._http_options.async_client_args


def version_of(live):
    return live.client._api_client._http_options.api_version


async def test_vertex_ai_is_reached_by_project_location_and_credentials():
    async with LiveSimulator(Scenario(connections=[speaks]), generation="vertex") as simulator:
        options = {"api_key": None, "http_options": vertex.http_options(simulator)}
        talk = Talk(
            simulator,
            model=vertex.MODEL,
            credentials=vertex.Credentials(),
            **vertex.PLACE,
            **options,
        )
        await talk.run()
    (setup,) = simulator.setups
    where = "projects/p/locations/us-central1/publishers/google/models/"
    assert (setup["model"], talk.live.profile.name) == (where + vertex.MODEL, "vertex-2.5")
    assert talk.said == "Here I am."


@pytest.mark.filterwarnings("ignore:Setting `LiveConnectConfig.generation_config`")
async def test_a_model_that_is_to_write_does_not_speak():
    config = {"generation_config": {"response_modalities": ["TEXT"]}}
    simulator, _ = await held([speaks], config=config)
    (setup,) = simulator.setups
    assert setup["generationConfig"] == {"response_modalities": ["TEXT"]}


async def test_a_message_that_is_only_a_word_is_passed_over():
    async def only(session):
        await session.wait_for_input("audio")
        await session.send('"word"')
        await speaks(session)

    _, talk = await held([only])
    assert talk.said == "Here I am."


class Fickle:
    """Declares other functions each time it is asked."""

    def __init__(self, *declared):
        self._declared = [[types.Tool(function_declarations=[each])] for each in declared]
        self.change = None

    def declarations(self):
        return self._declared[0]

    def on_declarations_change(self, listener):
        self.change = listener
        return lambda: None

    def next(self):
        self._declared.pop(0)
        self.change()


async def test_other_tools_are_announced_once_the_model_has_them():
    def function(name, default=None):
        schema = {"type": "object", "properties": {"x": {"type": "string", "default": default}}}
        return types.FunctionDeclaration(name=name, parameters_json_schema=schema)

    fickle = Fickle(function("a"), function("b", default={1}), function("c"))

    async def only(session):
        await session.wait_for_input("audio")
        await session.wait_for_context_update("c")

    async def user(talk):
        await talk.told("connection_opened")
        for number in range(2):
            fickle.next()
            yield frame(number)
            await talk.arrived(number + 1)

    async with LiveSimulator(Scenario(connections=[only]), generation="3.8-live") as simulator:
        talk = Talk(simulator, generation="3.8-live", user=user)
        talk.live.tools = fickle
        await talk.run()
    assert talk.events[1:] == [{"event": "tools_changed", "tools": ["c"]}]


async def test_a_wish_for_another_voice_that_is_taken_back_changes_nothing():
    session = ToolSession()
    speech = session.get(SpeechState)

    async def only(model):
        await model.wait_for_input("audio")
        await model.session_resumption("handle")
        await model.say("I am")
        await model.wait_for_input("audio")
        await model.turn_complete()
        await model.wait_for_input("audio", count=2)

    async def user(talk):
        yield frame(0)
        await talk.hears(lambda part: part.part.text)
        speech.set(voice="Puck")
        speech.set(voice=None)
        yield frame(1)
        await talk.hears(lambda part: part.metadata.get("turn_complete"))
        for number in (2, 3):
            yield frame(number)
            await talk.arrived(number + 1)

    tools = AdvancedToolProcessor(builtin_tools=False)
    simulator, _ = await held([only], tools, session=session, user=user)
    assert len(simulator.setups) == 1


class Unwritable:
    """Declares a tool whose schema can be written, and after that one that cannot."""

    def __init__(self):
        self.asked = 0

    def declarations(self):
        self.asked += 1
        bound = 3 if self.asked == 1 else {3}  # a set is no JSON
        limits = {"type": "object", "properties": {"n": {"type": "integer", "maximum": bound}}}
        declared = types.FunctionDeclaration(name="count", parameters_json_schema=limits)
        return [types.Tool(function_declarations=[declared])]

    def on_declarations_change(self, listener):
        del listener
        return lambda: None


async def test_tools_that_cannot_be_written_into_a_setup_leave_the_earlier_ones_declared():
    async def first(session):
        await session.session_resumption("handle")
        await session.wait_for_input("audio")
        await session.drop()

    scenario = Scenario(connections=[first, speaks])
    async with LiveSimulator(scenario, generation="3.1") as simulator:
        talk = Talk(simulator, generation="3.1")
        talk.live.tools = Unwritable()
        await talk.run(2)
    assert talk.said == "Here I am."
    assert simulator.setups[1]["tools"] == simulator.setups[0]["tools"]


def test_a_server_that_never_answers_is_the_reason_that_the_listener_gets():
    events = []

    async def user():
        yield frame()
        await asyncio.get_running_loop().create_future()

    async def talk(arena):
        await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 443)
        options = arena.http_options("https://127.0.0.1:443")
        live = GeminiLiveProcessor("gemini-3.8-live", api_key="simulated", http_options=options)
        async with processor.context():
            async for part in live(user()):
                events.append(event_of(part))

    said = "the server did not respond to the setup within 10 s"
    with (
        pytest.raises(TimeoutError, match=said),
        Arena() as arena,
        asyncio.Runner(loop_factory=VirtualEventLoop) as runner,
    ):
        runner.run(talk(arena))
    assert {"event": "connection_refused", "reason": said} in events
