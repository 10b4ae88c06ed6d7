"""A tool that requires approval runs only after the user has said yes.

The model gets `pending_approval` with a sentence to say. It confirms with `confirm_action`, which
counts only if the transcript of the user has a clear yes since the question.
Run it: `python examples/approval_by_voice.py`
"""

import asyncio
from collections.abc import AsyncIterator

from genai_processors.content_api import ProcessorPart

from leonidas_tools import AdvancedToolProcessor, GeminiLiveProcessor, LiveToolSession, tool
from leonidas_tools.simulator import (
    Call,
    InputTranscription,
    LiveSimulator,
    Say,
    Scenario,
    Step,
    TurnComplete,
    WaitForAnswers,
)

SENT: list[tuple[str, int]] = []


@tool(requires_approval=True)
def send_money(to: str, amount: int) -> str:
    """Sends money.

    Args:
        to: Who gets it.
        amount: How many euros.
    """
    SENT.append((to, amount))
    return f"{amount} euros sent to {to}"


def attempt(name: str, to: str, reply: str) -> list[Step]:
    """The model asks for money to be sent, the user replies, and the model takes it for a yes."""
    asked = f"answers.{name}.result"
    confirmation = {"approval_id": f"{{{asked}.approval_id}}", "decision": "yes"}
    return [
        Call.one("send_money", {"to": to, "amount": 20}, id=name),
        WaitForAnswers(),
        Say(f"{{{asked}.ask}}", audio_seconds=0.1),
        TurnComplete(),
        InputTranscription(reply),
        Call.one("confirm_action", confirmation, id=f"{name}_confirmed"),
        WaitForAnswers(),
        TurnComplete(),
    ]


async def main() -> None:
    tools = AdvancedToolProcessor(tools=[send_money])
    script = [*attempt("first", "Ana", "Yes, please."), *attempt("second", "Ben", "No, leave it.")]
    async with LiveSimulator(Scenario(script), generation="3.8-live") as gemini:
        live = GeminiLiveProcessor(
            "gemini-3.8-live", api_key="none", http_options=gemini.http_options()
        )

        async def user() -> AsyncIterator[ProcessorPart]:
            yield ProcessorPart("Send twenty euros to Ana and to Ben.")
            await gemini.finished()  # the conversation goes on until the script ends

        async for part in LiveToolSession(live, tools)(user()):
            if part.substream_name == "input_transcription":
                print("user:    ", part.text)
            elif response := part.part.function_response:
                body = response.response or {}
                said = body.get("message") or body["result"]
                print("answered:", response.name, body["status"], "-", said)
    print("sent:    ", SENT)
    assert SENT == [("Ana", 20)]


if __name__ == "__main__":
    asyncio.run(main())
