"""All that happens, as one ordered stream that any number may read: typed, numbered, bounded.

The types of the events are loaded when they are first named.
"""

from typing import TYPE_CHECKING, Any

from leonidas_tools.event_stream.sse import to_sse
from leonidas_tools.event_stream.stream import EventStream

if TYPE_CHECKING:
    from leonidas_tools.event_stream.schema import Event, events_schema
else:  # hidden from the type checker, for which it would stand for every wrong name as well

    def __getattr__(name: str) -> Any:
        """Loads a public name of the types from their module."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from leonidas_tools.event_stream import schema

        return getattr(schema, name)


__all__ = ["Event", "EventStream", "events_schema", "to_sse"]
