"""One call that the model has made, over all connections it is made on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genai_processors.content_api import ProcessorPart


@dataclass(kw_only=True, slots=True)
class LiveCall:
    """One call that the model has made.

    Args:
        id: What tools and listener know it by.
        wire_id: What the server knows it by; `None` where it gave no id.
        name: The function.
        args: Its arguments.
        connection: The connection that asked, or asked once more.
        blocking: Whether the model waits for the answer.
        turn: The user's turn in which it was made.
        begun: Whether the server was given an interim answer.
        answer: Its final answer, kept until the model surely has it.
        delivered: The number of the message that carried the answer.
        confirmed: Whether that message has surely arrived.
        heard_before: How often the user had been heard when the answer was sent.
        settled: Whether there is nothing more to do about it.
        alone: Whether its answer is to go in a message of its own.
        deliveries: How often the answer was sent.
        refusals: How often it may have been the reason why the server has ended a connection.
        replaced: Whether its answer was replaced, because it could not be sent.
    """

    id: str
    wire_id: str | None
    name: str
    args: Mapping[str, Any]
    connection: int
    blocking: bool
    turn: int
    begun: bool = False
    answer: ProcessorPart | None = None
    delivered: int | None = None
    confirmed: bool = False
    heard_before: int = -1
    settled: bool = False
    alone: bool = False
    deliveries: int = 0
    refusals: int = 0
    replaced: bool = False

    @property
    def open(self) -> bool:
        """Return whether its answer is still to come."""
        return self.answer is None and not self.settled
