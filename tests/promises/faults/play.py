"""Plays parts to a processor and sorts what comes out."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from genai_processors import processor
from genai_processors.content_api import ProcessorPart

Answer = tuple[str | None, str, dict[str, Any]]
"""The id, the name and the envelope of one answer."""


def audio(number: int) -> ProcessorPart:
    return ProcessorPart(
        number.to_bytes(2, "big") * 160,
        mimetype="audio/pcm;rate=16000",
        role="model",
        metadata={"frame": number},
    )


def call(name: str, args: Any = None, *, id: str | None = None, **more: Any) -> ProcessorPart:  # noqa: A002 - the field's own word
    """A call as Live brings it: its id stands in the metadata."""
    metadata = {} if id is None else {"id": id}
    return ProcessorPart.from_function_call(
        name=name, args={} if args is None else args, role="model", metadata=metadata, **more
    )


def cancellation(call_id: str) -> ProcessorPart:
    return ProcessorPart.from_tool_cancellation(function_call_id=call_id)


@dataclass
class Heard:
    """What came out."""

    parts: list[ProcessorPart] = field(default_factory=list)
    _by_id: dict[str | None, list[dict[str, Any]]] = field(default_factory=dict)
    _sorted: int = 0  # as many parts are in `_by_id`: a test may ask after each of thousands

    def take(self, part: ProcessorPart) -> None:
        self.parts.append(part)

    @property
    def answers(self) -> list[Answer]:
        return [answer for part in self.parts if (answer := answer_of(part)) is not None]

    @property
    def by_id(self) -> dict[str | None, list[dict[str, Any]]]:
        """The bodies of the answers, by the id of their call."""
        while self._sorted < len(self.parts):
            answer = answer_of(self.parts[self._sorted])
            self._sorted += 1
            if answer is not None:
                self._by_id.setdefault(answer[0], []).append(answer[2])
        return self._by_id

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(p.text) for p in self.parts if p.get_metadata("tool_event")]

    @property
    def frames(self) -> list[int]:
        return [p.metadata["frame"] for p in self.parts if "frame" in p.metadata]

    @property
    def passed(self) -> list[ProcessorPart]:
        """What is neither an answer nor an event."""
        return [p for p in self.parts if not p.get_metadata("tool_event") and answer_of(p) is None]


def answer_of(part: ProcessorPart) -> Answer | None:
    if part.get_metadata("tool_event"):
        return None
    response = part.part.function_response
    if response is None or part.tool_cancellation:
        return None
    assert part.role == "user"
    assert part.substream_name == ""
    assert response.name is not None
    assert response.response is not None
    json.dumps(response.response, allow_nan=False)  # as the client does when it sends
    return response.id, response.name, response.response


async def play(
    tools: processor.Processor,
    parts: Iterable[ProcessorPart] | AsyncIterable[ProcessorPart],
    *,
    seconds: float = 20,
) -> Heard:
    """Plays parts and hears what comes out, to the end."""
    heard = Heard()
    source = parts if isinstance(parts, AsyncIterable) else _stream(parts)
    async with asyncio.timeout(seconds), processor.context():
        async for part in tools(source):
            heard.take(part)
    return heard


async def _stream(parts: Iterable[ProcessorPart]) -> AsyncIterable[ProcessorPart]:
    for part in parts:
        yield part


class Script:
    """An input that is written while it is read, and what was heard of it so far."""

    def __init__(self, tools: processor.Processor) -> None:
        self.heard = Heard()
        self._tools = tools
        self._queue: asyncio.Queue[ProcessorPart | Exception | None] = asyncio.Queue()
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._left = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._task is not None
        if error[0] is not None:
            self._task.cancel()
        else:
            self._queue.put_nowait(None)
        async with asyncio.timeout(20):
            await asyncio.wait([self._task])
        if error[0] is None and not self._left:
            self._task.result()

    def say(self, *parts: ProcessorPart | Exception) -> None:
        for part in parts:
            self._queue.put_nowait(part)

    async def until(self, met: Callable[[Heard], bool]) -> Heard:
        """Waits until enough was heard."""
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: met(self.heard))
        return self.heard

    async def until_answered(self, *ids: str | None) -> Heard:
        wanted = set(ids)
        return await self.until(lambda heard: wanted <= heard.by_id.keys())

    async def until_event(self, event: str, call_id: str | None) -> Heard:
        return await self.until(
            lambda heard: any(e["event"] == event and e["call_id"] == call_id for e in heard.events)
        )

    async def until_frame(self, frame: int) -> Heard:
        return await self.until(lambda heard: frame in heard.frames)

    async def leave(self) -> None:
        """The reader goes away in the middle."""
        assert self._task is not None
        self._left = True
        self._task.cancel()
        async with asyncio.timeout(20):
            await asyncio.wait([self._task])

    async def _source(self) -> AsyncIterable[ProcessorPart]:
        while (item := await self._queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    async def _run(self) -> None:
        async with processor.context():
            async for part in self._tools(self._source()):
                self.heard.take(part)
                async with self._changed:
                    self._changed.notify_all()


def tool_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("leonidas")]
