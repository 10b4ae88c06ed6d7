"""Tools in a plain google-genai session: your own loop receives, and the calls are answered.

No processors are needed. The simulator plays Gemini, so no key is needed either.
Run it: `python examples/plain_genai_session.py`
"""

import asyncio

from google import genai
from google.genai import types

from leonidas_tools import AdvancedToolProcessor, tool
from leonidas_tools.simulator import (
    Call,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)

MODEL = "gemini-3.8-live"
SCRIPT = [
    WaitForInput("text"),
    Call.one("get_weather", {"city": "Lisbon"}, id="weather"),
    WaitForAnswers(),
    Say("It is {answers.weather.result.celsius} degrees.", audio_seconds=0.1),
    TurnComplete(),
]


@tool(effect="read")
async def get_weather(city: str) -> dict[str, str | int]:
    """Current weather in a city."""
    return {"city": city, "celsius": 21}


async def talk(client: genai.Client) -> None:
    async with AdvancedToolProcessor(tools=[get_weather]) as tools:
        config = types.LiveConnectConfig(
            response_modalities=[types.Modality.AUDIO],
            output_audio_transcription=types.AudioTranscriptionConfig(),
            tools=[*tools.declarations()],
        )
        async with (
            client.aio.live.connect(model=MODEL, config=config) as session,
            tools.attach(session, model=MODEL),
        ):
            await session.send_realtime_input(text="How is the weather in Lisbon?")
            async for message in session.receive():  # your own loop, as it was
                if message.tool_call:
                    print("called:", [call.name for call in message.tool_call.function_calls or []])
                content = message.server_content
                if content and content.output_transcription:
                    print("agent: ", content.output_transcription.text)


async def main() -> None:
    async with LiveSimulator(Scenario(SCRIPT), generation="3.8-live") as gemini:
        await talk(genai.Client(api_key="none", http_options=gemini.http_options()))
        (call,) = gemini.calls
        print("answered once:", call.answered_once)


if __name__ == "__main__":
    asyncio.run(main())
