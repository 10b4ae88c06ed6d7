"""A simulator of the Gemini Live server: test a voice agent without key or network.

It speaks the protocol on loopback, plays a scenario in place of the model, and is strict: it
refuses what the real server of a generation of models refuses, and names the reason. A scenario
against your own agent:

    >>> from google import genai
    >>> async def agent(client: genai.Client) -> None:  # yours
    ...     config = {"tools": [{"function_declarations": [{"name": "get_weather"}]}]}
    ...     async with client.aio.live.connect(model="gemini-live-x", config=config) as session:
    ...         await session.send_realtime_input(text="How is the weather in Lisbon?")
    ...         async for message in session.receive():
    ...             for call in (message.tool_call and message.tool_call.function_calls) or ():
    ...                 answer = {"id": call.id, "name": call.name, "response": {"sky": "clear"}}
    ...                 await session.send_tool_response(function_responses=answer)

    >>> import asyncio
    >>> async def scenario(model: SimulatedSession) -> None:
    ...     await model.wait_for_input("text", containing="weather")
    ...     (answer,) = await model.call(FunctionCall("get_weather", {"city": "Lisbon"}))
    ...     assert answer.response == {"sky": "clear"}
    ...     await model.say("The sky is clear.")
    ...     await model.turn_complete()
    >>> with LiveSimulator(scenario, generation="3.1") as simulator:
    ...     client = genai.Client(api_key="x", http_options=simulator.http_options())
    ...     asyncio.run(agent(client))
    ...     print(simulator.wait_finished())
    connection 1: played

Leaving the `with` raises `SimulatorError` for every violation of the protocol and every
expectation that was not met. Further features:

- A scenario is an async function, a list of steps (`Scenario([Call.one("get_weather"), ...])`), or
  a YAML file of them (`LiveSimulator("demo.yaml")`); with `connections`, one script for each.
- `GENERATIONS` are the `Quirks` of the servers of Gemini 2.5, 3.1, 3.8 and Vertex AI.
- Sessions are resumed by handle, over `GoAway`, `Drop`, `StallPongs`, `GoSilent`, refused
  connections and a server that does not listen.
- `simulator.advance(600)` advances the server's time by ten minutes; `ElasticEventLoop` does the
  same for the client.
- `simulator.messages`, `calls`, `audio_received`, `texts_received`, `context_updates`,
  `declared()`, `handles`, `violations`, ... record the session; `until` waits for a condition.
- `Say("Hello", audio="hello.wav")` speaks a recording; `heard_pcm()` returns the microphone audio.
"""

from leonidas_tools.simulator.elastic_loop import ElasticEventLoop
from leonidas_tools.simulator.function_call import ABSENT, FunctionCall
from leonidas_tools.simulator.generations import GENERATIONS, Quirks
from leonidas_tools.simulator.protocol import MEBIBYTE
from leonidas_tools.simulator.recording import (
    Answer,
    CallRecord,
    ConnectionRecord,
    ContextUpdate,
    IssuedHandle,
    Outcome,
    ReceivedAudio,
    ReceivedText,
    RecordedMessage,
    Refusal,
    Violation,
)
from leonidas_tools.simulator.scenario import Scenario
from leonidas_tools.simulator.server import LiveSimulator
from leonidas_tools.simulator.session import ClientLeftError, SimulatedSession, StepFailedError
from leonidas_tools.simulator.steps import (
    Call,
    Cancel,
    Close,
    Drop,
    Expect,
    ExpireHandles,
    GenerationComplete,
    GoAway,
    GoSilent,
    InputTranscription,
    Interrupt,
    Pause,
    RefuseConnections,
    Say,
    Send,
    SessionResumption,
    StallPongs,
    Step,
    StopListening,
    TurnComplete,
    Usage,
    WaitForAnswers,
    WaitForClose,
    WaitForContextUpdate,
    WaitForInput,
    WaitForProgress,
)
from leonidas_tools.simulator.user_input import UserInput

__all__ = [
    "ABSENT", "GENERATIONS", "MEBIBYTE", "Answer", "Call", "CallRecord", "Cancel",
    "ClientLeftError", "Close", "ConnectionRecord", "ContextUpdate", "Drop", "ElasticEventLoop",
    "Expect", "ExpireHandles", "FunctionCall", "GenerationComplete", "GoAway", "GoSilent",
    "InputTranscription", "Interrupt", "IssuedHandle", "LiveSimulator", "Outcome", "Pause",
    "Quirks", "ReceivedAudio", "ReceivedText", "RecordedMessage", "Refusal", "RefuseConnections",
    "Say", "Scenario", "Send", "SessionResumption", "SimulatedSession", "StallPongs", "Step",
    "StepFailedError", "StopListening", "TurnComplete", "Usage", "UserInput", "Violation",
    "WaitForAnswers", "WaitForClose", "WaitForContextUpdate", "WaitForInput", "WaitForProgress",
]  # fmt: skip
