"""News for conversations: what happens beside their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.calls.listeners import Listeners

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession

Tell: TypeAlias = "Callable[[ToolCall, ToolResult], object]"


class Notices:
    """The conversations that can be told something now, and the way to tell them.

    A notice reaches the model as the outcome of a call that was answered before: at a moment at
    which it interrupts no one.

    Example:
        >>> from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession
        >>> notices, session = Notices(), ToolSession("kitchen")
        >>> leave = notices.join(session, lambda call, result: print(result.speech))
        >>> notices.tell(ToolCall(name="egg_timer", session=session), ToolResult(speech="Done."))
        Done.
        True
        >>> leave()
        >>> notices.sessions
        ()
    """

    def __init__(self) -> None:
        self._joined: dict[ToolSession, Tell] = {}
        self._listeners: Listeners[[ToolSession]] = Listeners("notices")

    @property
    def sessions(self) -> tuple[ToolSession, ...]:
        """Return the conversations, the latest first."""
        return tuple(reversed(self._joined))

    def join(self, session: ToolSession, tell: Tell) -> Callable[[], None]:
        """Add a conversation; return a function that takes it away."""
        self._joined.pop(session, None)
        self._joined[session] = tell

        def leave() -> None:
            if self._joined.get(session) is tell:
                del self._joined[session]

        self._listeners.notify(session)
        return leave

    def on_join(self, listener: Callable[[ToolSession], None]) -> Callable[[], None]:
        """Call back with each conversation that begins; return a function that ends it."""
        return self._listeners.subscribe(listener)

    def tell(self, call: ToolCall, result: ToolResult) -> bool:
        """Tell the conversation of a call, and return whether it is there to be told."""
        tell = self._joined.get(call.session)
        if tell is None:
            return False
        tell(call, result)
        return True
