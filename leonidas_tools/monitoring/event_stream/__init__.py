"""All events as one ordered, numbered, bounded stream for any number of readers."""

from leonidas_tools.monitoring.event_stream.schema import Event, events_schema
from leonidas_tools.monitoring.event_stream.stream import EventStream, to_sse

__all__ = ["Event", "EventStream", "events_schema", "to_sse"]
