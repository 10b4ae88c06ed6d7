"""Live sessions and their connections are part of what can be followed."""

import asyncio
import json
from contextlib import aclosing

import jsonschema_rs
from genai_processors import processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools import AdvancedToolProcessor, LiveToolSession, ToolSession
from leonidas_tools.live.live_events import live_event
from leonidas_tools.monitoring.event_stream import events_schema

OPENED = {"connection": 1, "resumed": False, "audio_dropped": 0.0}
KEY = "AIzaSyA-1234567890abcdefghijklmnopqrstu"


async def test_a_live_session_and_its_connection_are_followed():
    told = asyncio.Event()

    @processor.processor_function
    async def model(content):
        yield live_event("connection_opened", **OPENED)
        yield live_event("connection_lost", code=1006, reason=f"GET /ws?key={KEY} failed")
        yield live_event("tools_changed", tools=["add"])
        await told.wait()

    async def microphone():
        await told.wait()
        yield ProcessorPart("")

    validate = jsonschema_rs.validator_for(events_schema()).validate
    heard, states = [], []
    async with AdvancedToolProcessor() as tools, aclosing(tools.events.subscribe()) as events:
        states.append((await anext(events))["live"])
        live = LiveToolSession(model, tools, session=ToolSession("s"), settle_seconds=0)
        listening = asyncio.create_task(collected(live(microphone())))
        async with asyncio.timeout(10):
            async for event in events:
                validate(json.loads(json.dumps(event)))
                heard.append(event)
                if event["event"] == "tools_changed":
                    async with aclosing(tools.events.subscribe()) as late:
                        states.append((await anext(late))["live"])
                    told.set()
                if event["event"] == "session_ended":
                    break
            parts = await listening
        async with aclosing(tools.events.subscribe()) as late:
            states.append((await anext(late))["live"])
    own = ("version", "sequence", "at")
    assert [{k: v for k, v in event.items() if k not in own} for event in heard] == [
        {"event": "session_started", "session": "s"},
        {"event": "connection_opened", "session": "s", **OPENED},
        {
            "event": "connection_lost",
            "session": "s",
            "code": 1006,
            "reason": "GET /ws?key=*** failed",
        },
        {"event": "tools_changed", "session": "s", "tools": ["add"]},
        {"event": "session_ended", "session": "s"},
    ]
    lost = {"session": "s", "state": "disconnected", "connection": 1}
    assert states == [[], [lost], []]
    assert KEY not in str(parts)


async def collected(stream):
    async with processor.context():
        return [part.text async for part in stream]
