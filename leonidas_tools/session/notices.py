"""Notices for conversations: events outside of their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from leonidas_tools.calls.listeners import Listeners

if TYPE_CHECKING:
    from collections.abc import Callable

    from leonidas_tools.calls.call import ToolCall, ToolResult, ToolSession

Tell: TypeAlias = "Callable[[ToolCall, ToolResult], object]"


class Notices:
    """Keeps a callback for each running conversation, which sends it a notice.

    The model receives a notice as another response to an earlier call, when it interrupts nobody.

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
        """Return the running conversations, the latest first."""
        return tuple(reversed(self._joined))

    def join(self, session: ToolSession, tell: Tell) -> Callable[[], None]:
        """Add a conversation; return a function that removes it."""
        self._joined.pop(session, None)
        self._joined[session] = tell

        def leave() -> None:
            if self._joined.get(session) is tell:
                del self._joined[session]

        self._listeners.notify(session)
        return leave

    def on_join(self, listener: Callable[[ToolSession], None]) -> Callable[[], None]:
        """Call `listener` with each conversation that begins; return a function to unsubscribe."""
        return self._listeners.subscribe(listener)

    def tell(self, call: ToolCall, result: ToolResult) -> bool:
        """Send a result to the conversation of a call; return `False` if it does not run."""
        tell = self._joined.get(call.session)
        if tell is None:
            return False
        tell(call, result)
        return True
