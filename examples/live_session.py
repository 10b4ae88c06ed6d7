"""A Live session with a tool: text in, speech out, and the call answered on the way.

The simulator plays Gemini, so no key is needed. With a key, leave out `api_key` and
`http_options`. Run it: `python examples/live_session.py`
"""

import asyncio

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor, LiveToolSession, tool
from leonidas_tools.simulator import (
    Call,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)


@tool(effect="read")
async def get_weather(city: str) -> dict[str, str | int]:
    """Current weather in a city."""
    return {"city": city, "celsius": 21}


# What the model does: it waits for a question, calls a tool and speaks of the answer.
SCRIPT = [
    WaitForInput("text", containing="Lisbon"),
    Call.one("get_weather", {"city": "Lisbon"}, id="weather"),
    WaitForAnswers(),
    Say("It is {answers.weather.result.celsius} degrees in Lisbon.", audio_seconds=0.2),
    TurnComplete(),
]


async def main() -> None:
    tools = AdvancedToolProcessor(tools=[get_weather])
    async with LiveSimulator(Scenario(SCRIPT), generation="3.8-live") as gemini:
        live = GeminiLiveProcessor(
            "gemini-3.8-live",
            api_key="none",
            http_options=gemini.http_options(),
        )
        agent = LiveToolSession(live, tools)  # a Processor: parts in, parts out
        sound = 0
        async for part in agent("How is the weather in Lisbon?"):
            if call := part.part.function_call:
                print("called:  ", call.name, call.args)
            elif response := part.part.function_response:
                print("answered:", response.response)
            elif part.substream_name == "output_transcription":
                print("agent:   ", part.text)
            elif blob := part.part.inline_data:
                sound += len(blob.data or b"")
    print(f"sound:    {sound / 48000:.1f} s")  # 24 kHz, 16 bits


if __name__ == "__main__":
    asyncio.run(main())
