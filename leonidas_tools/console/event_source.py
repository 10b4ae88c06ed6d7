"""The event stream as server-sent events, for a bounded number of readers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response

from leonidas_tools.monitoring.event_stream import to_sse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from leonidas_tools.monitoring.event_stream import Event, EventStream

_MAX_READERS = 64
_HEARTBEAT_SECONDS = 15.0
_MAX_SEND_SECONDS = 30.0
"""Timeout of one send; the reader is disconnected, and can resume by `Last-Event-ID`."""


class EventSource:
    """Sends the events to readers.

    Args:
        events: The event stream.
        closing: Set to end all responses.
    """

    def __init__(self, events: EventStream, closing: asyncio.Event) -> None:
        self._events = events
        self._closing = closing
        self._readers = 0

    async def answer(self, request: Request) -> Response:
        """Stream the state, or the events after `Last-Event-ID`, and then every new event."""
        if self._readers >= _MAX_READERS:
            raise HTTPException(
                503, "Too many event streams: close one, or try again later", {"Retry-After": "5"}
            )
        asked = request.query_params
        kinds = [kind for kind in asked.get("kinds", "").split(",") if kind]
        try:
            events = self._events.subscribe(
                session=asked.get("session"),
                kinds=kinds or None,
                after=request.headers.get("last-event-id") or asked.get("after"),
            )
        except ValueError as error:
            raise HTTPException(422, str(error)) from error
        return _Streaming(self, events)

    async def stream(self, events: AsyncGenerator[Event], receive: Receive, send: Send) -> None:
        """Send events until the reader leaves, is too slow, or the console closes."""
        self._readers += 1
        ends = [
            asyncio.create_task(_wait_for_disconnect(receive), name="console:reader-left"),
            asyncio.create_task(self._closing.wait(), name="console:closing"),
        ]
        event: asyncio.Task[Event] | None = None
        try:
            await _send(send, b": events\n\n")
            while True:
                event = event or asyncio.ensure_future(anext(events))
                done, _ = await asyncio.wait(
                    {event, *ends}, timeout=_HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if not done.isdisjoint(ends):
                    return
                if event not in done:
                    await _send(send, b": nothing new\n\n")
                    continue
                text, event = to_sse(event.result()), None
                await _send(send, text.encode())
        except TimeoutError:
            return
        finally:
            self._readers -= 1
            running = [each for each in (event, *ends) if each is not None]
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await events.aclose()


class _Streaming(Response):
    """Streams the events; unlike a response of Starlette, disconnects a reader that stalls."""

    def __init__(self, source: EventSource, events: AsyncGenerator[Event]) -> None:
        super().__init__(
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        del self.headers["content-length"]
        self._source = source
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers, and then the events."""
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await self._source.stream(self._events, receive, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, body: bytes) -> None:
    async with asyncio.timeout(_MAX_SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
