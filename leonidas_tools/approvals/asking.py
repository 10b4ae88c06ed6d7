"""How questions are put to a person; what they are made of is loaded with what asks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leonidas_tools.approvals.request import Channel
    from leonidas_tools.calls import ToolCall, ToolResult
    from leonidas_tools.events import Sink


class Runs(Protocol):
    """What runs calls."""

    def renewed(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """The call as a new one, with the tool and the settings there are now."""
        ...

    def start(self, call: ToolCall, on_end: Any, sinks: tuple[Sink, ...] = ()) -> object:
        """Begins a call."""
        ...

    async def run(self, call: ToolCall, sinks: tuple[Sink, ...] = ()) -> ToolResult:
        """Runs a call to its end."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """How questions are put, and how what was allowed is run.

    Args:
        runs: Runs it.
        channel: Asks a person; without one, the answer comes by `Approvals.decide` or by voice.
        by_voice: Whether the model can put the question, and tell the answer.
        save: Keeps an "always" in the settings file, as `policies.always` has it.
    """

    runs: Runs
    channel: Channel | None = None
    by_voice: Callable[[], bool] = lambda: False
    save: Callable[[Mapping[str, Any]], object] | None = None
