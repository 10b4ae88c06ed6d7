"""Sessions that were recorded with real servers play to their end, and each call is answered once.

The recordings lie beside the repository and are not part of it; what they show is in the quirks of
the simulator's generations.
"""

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from genai_processors.content_api import ProcessorPart
from google.genai import Client

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor, LiveToolSession, Tool
from leonidas_tools.live.usage import TurnUsage
from leonidas_tools.simulator import LiveSimulator

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "gemini_live"
RECORDINGS = sorted(FOLDER.glob("*.yaml"))
# They are recorded sessions of other people, which the repository does not hold.
pytestmark = pytest.mark.skipif(not RECORDINGS, reason=f"there are no recordings in {FOLDER}")
CLIENT_FIELDS = ("client_content", "realtime_input", "tool_response")


class Recording:
    def __init__(self, file):
        messages = yaml.safe_load(file.read_text("utf-8"))["interactions"]
        self.setup = messages[0]["data"]["setup"]
        self.messages = [(m["direction"], m["data"]) for m in messages[2:]]
        responses = self.sent("tool_response")
        self.results = {
            each["name"]: each["response"]["output"]
            for response in responses
            for each in response["functionResponses"]
        }

    def sent(self, field):
        return [data[field] for way, data in self.messages if way == "sent" and field in data]

    @property
    def said(self):
        contents = [data.get("serverContent", {}) for _, data in self.messages]
        return "".join(each.get("outputTranscription", {}).get("text", "") for each in contents)

    @property
    def totals(self):
        """The tokens of each count, with thoughts, which the total leaves out."""
        counts = [data["usageMetadata"] for _, data in self.messages if "usageMetadata" in data]
        return [each["totalTokenCount"] + each.get("thoughtsTokenCount", 0) for each in counts]

    @property
    def turns(self):
        contents = [data.get("serverContent", {}) for _, data in self.messages]
        return sum("turnComplete" in each for each in contents)

    def tools(self):
        return [self.tool(name, result) for name, result in self.results.items()]

    def tool(self, name, result):
        declared = self.setup["tools"][0]["functionDeclarations"]
        (parameters,) = [each["parameters"] for each in declared if each["name"] == name]

        async def answers(**arguments):
            del arguments
            return result

        schema = {"type": "object", "properties": {each: {} for each in parameters["properties"]}}
        return Tool.from_json_schema(name=name, parameters=schema, function=answers, effect="once")

    async def play(self, session):
        for way, data in self.messages:
            if way == "received":
                await session.send(data)
            elif "tool_response" in data:
                await session.wait_for_answers()
            elif "realtime_input" in data:
                await session.wait_for_input("audio")
            else:
                turns = data["client_content"]["turns"]
                await session.wait_for_input("text", count=len(turns))

    async def user(self, simulator):
        for content in self.sent("client_content"):
            complete = content["turnComplete"]
            for turn in content["turns"]:
                yield ProcessorPart(
                    turn["parts"][0]["text"],
                    role=turn["role"],
                    metadata={} if complete else {"turn_complete": False},
                )
        for _ in self.sent("realtime_input"):
            rate = "audio/pcm;rate=16000"
            yield ProcessorPart(bytes(640), mimetype=rate, substream_name="realtime")
        await simulator.finished()


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
async def test_a_recorded_session_plays(file):
    recording = Recording(file)
    model = recording.setup["model"].removeprefix("models/")
    tools = AdvancedToolProcessor(recording.tools(), builtin_tools=False)
    async with LiveSimulator(recording.play) as simulator:
        client = Client(
            api_key="simulated",
            vertexai=model.startswith("publishers/"),
            http_options=simulator.http_options(),
        )
        session = LiveToolSession(GeminiLiveProcessor(model, client=client), tools)
        parts = [part async for part in session(recording.user(simulator))]

    assert [outcome.status for outcome in simulator.outcomes] == ["played"]
    assert len(simulator.calls) == len(recording.results)
    for call in simulator.calls:
        (answer,) = call.answers
        assert (answer.id, answer.name) == (call.id, call.name)
        assert (answer.status, answer.response["result"]) == ("ok", recording.results[call.name])
    heard = [part for part in parts if part.substream_name == "output_transcription"]
    assert "".join(part.text for part in heard) == recording.said
    turns = TurnUsage()
    counted = [more for part in parts if (more := turns.add(part)) is not None]
    totals = [sum(asdict(each).values()) for each in counted]
    assert totals == recording.totals
    assert turns.turn == len(recording.totals) == recording.turns
