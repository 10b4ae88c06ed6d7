"""The toolboxes at work: a note is read, code is run, a file written, and a reminder fires.

The simulator plays Gemini; all files are in a temporary directory. It needs the extras `sandbox`
and `reminders`, libseccomp, and bubblewrap or Landlock. Run it: `python examples/toolboxes.py`
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from leonidas_tools import (
    AdvancedToolProcessor,
    GeminiLiveProcessor,
    LeonidasError,
    LiveToolSession,
    ToolSession,
)
from leonidas_tools.simulator import (
    Call,
    LiveSimulator,
    Say,
    Scenario,
    TurnComplete,
    WaitForAnswers,
    WaitForInput,
)

SETTINGS = {
    "toolboxes": [
        "notes",
        "files",  # both in the folder `workspace`
        "code",
        {"reminders": {"desktop": False}},
    ],
    "store": {"enabled": True, "url": "agent.db"},
}

CODE = """
import csv
rows = csv.DictReader(open('budget.csv'))
sum(float(row['euros']) for row in rows)
"""

# What the model does. {answers.ID.KEY} quotes the answer to the call with that id.
SCRIPT = [
    WaitForInput("text", containing="budget"),
    Call.one("search_notes", {"query": "budget"}, id="note"),
    WaitForAnswers(),
    Call.one("execute_code", {"code": CODE}, id="total"),
    WaitForAnswers(),
    Call.one("write_file", {"path": "total.txt", "content": "{answers.total.result.value}"}),
    Call.one("system_reminder", {"title": "Send the total", "datetime": "in 1 second"}),
    WaitForAnswers(),
    Say("The total is {answers.total.result.value} euros. I will remind you.", audio_seconds=0.1),
    TurnComplete(),
    WaitForInput("text", containing="Send the total"),  # the reminder, told at a quiet moment
    Say("You wanted to send the total.", audio_seconds=0.1),
    TurnComplete(),
]


async def user(reminded: asyncio.Event) -> AsyncIterator[str]:
    yield "What is my budget?"
    await reminded.wait()  # the conversation goes on until then


async def main() -> None:
    Path("workspace").mkdir()
    Path("workspace/budget.csv").write_text("what,euros\nrent,900\nfood,310.5\n")
    tools = AdvancedToolProcessor(config=SETTINGS)
    ana, reminded = ToolSession(user="ana"), asyncio.Event()
    note = {"title": "Budget", "text": "The budget is in budget.csv."}
    await tools.execute("create_note", note, session=ana)
    async with LiveSimulator(Scenario(SCRIPT), generation="3.8-live") as gemini:
        live = GeminiLiveProcessor(
            "gemini-3.8-live",
            api_key="none",
            http_options=gemini.http_options(),
        )
        async for part in LiveToolSession(live, tools, session=ana)(user(reminded)):
            if call := part.part.function_call:
                print("called:  ", call.name, call.args)
            elif response := part.part.function_response:
                print("answered:", response.response)
            elif part.substream_name == "output_transcription":
                print("agent:   ", part.text)
                if "wanted" in part.text:
                    reminded.set()
    print("file:    ", Path("workspace/total.txt").read_text())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        try:
            asyncio.run(main())
        except LeonidasError as error:  # such as an extra that is not installed
            sys.exit(str(error))
