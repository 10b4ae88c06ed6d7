"""All events as one ordered, numbered, bounded stream for any number of readers."""

from leonidas_tools.monitoring.event_stream.schema import Event, events_schema
from leonidas_tools.monitoring.event_stream.sse import to_sse
from leonidas_tools.monitoring.event_stream.stream import EventStream

__all__ = ["Event", "EventStream", "events_schema", "to_sse"]
