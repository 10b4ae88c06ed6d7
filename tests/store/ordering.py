"""A process of its own with the session `kitchen` of Ana: `python ordering.py WHERE`.

It takes lines from standard input: `order ARTICLE ID` makes a call, and `ask ARTICLE ID` one of a
tool in whose place `order` runs; `serve` ends it, `leave` ends the conversation while the call
runs, and the end of the lines stops the process.
"""

import asyncio
import os
import sys

from genai_processors import processor
from genai_processors.content_api import ProcessorPart
from google.genai import types

from leonidas_tools import AdvancedToolProcessor, RetryableError, ToolSession, tool
from leonidas_tools.processors import stream


def say(text):
    os.write(1, f"{text}\n".encode())


async def main(where):
    served = asyncio.Event()

    @tool(effect="once", lane=None)
    async def order(article: str) -> str:
        say(f"runs {article}")
        await served.wait()
        return f"{article}, ordered elsewhere"

    @tool(effect="idempotent", retry_attempts=0, fallback_tools=["order"])
    async def ask(article: str) -> None:
        raise RetryableError(f"No {article} here.")

    settings = {"store": {"enabled": True, "url": where, "durable": True}}
    tools = AdvancedToolProcessor(tools=[order, ask], config=settings, builtin_tools=False)
    asked = asyncio.Queue()

    async def calls():
        while True:
            name, article, call_id = await asked.get()
            call = types.FunctionCall(name=name, args={"article": article}, id=call_id)
            yield ProcessorPart(types.Part(function_call=call), role="model")

    async def converse():
        with stream.shared(session=ToolSession("kitchen", user="ana")):
            async for part in tools(calls()):
                if (answer := part.part.function_response) is not None:
                    await tools.store.flush()
                    say(answer.response["status"])

    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with tools, processor.context():
        await tools.execute("nothing", session=ToolSession("warm"))
        await tools.store.flush(timeout_seconds=60)  # its first record opens and locks
        conversation = processor.create_task(converse())
        while line := (await lines.readline()).decode().split():
            match line:
                case ["order" | "ask" as name, article, call_id]:
                    asked.put_nowait((name, article, call_id))
                case ["serve"]:
                    served.set()
                case ["leave"]:
                    conversation.cancel()
                    await asyncio.wait([conversation])
                    await tools.store.flush()
                    say("left")
        conversation.cancel()


asyncio.run(main(sys.argv[1]))
