"""Outcomes that the model was told as conversation, because their connection was lost."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leonidas_tools.simulator import CallRecord
    from leonidas_tools.simulator.recording import ReceivedText


@dataclass(frozen=True, kw_only=True, slots=True)
class ToldOutcome:
    """One outcome.

    Args:
        id: The id of the call.
        name: The function.
        status: The status of the answer.
        connection: The connection it was told on.
        at: When, by the monotonic clock, in seconds.
    """

    id: str
    name: str
    status: str
    connection: int
    at: float

    def is_of(self, record: CallRecord) -> bool:
        """Return whether it is the outcome of that call; a repeated id has its own ending."""
        known = record.id is not None and record.id_sent
        same = not known or self.id == record.id or self.id.startswith(f"{record.id}~")
        return same and self.name == record.name and self.connection > record.connection


def told_outcomes(texts: Iterable[ReceivedText]) -> list[ToldOutcome]:
    """Return the outcomes in what the user's side has said: a JSON object a line.

    Args:
        texts: What the simulator has received.
    """
    return [outcome for text in texts for outcome in _in(text)]


def _in(text: ReceivedText) -> Iterator[ToldOutcome]:
    for line in text.text.splitlines():
        with suppress(ValueError, TypeError, KeyError):
            told = json.loads(line)
            yield ToldOutcome(
                id=str(told["id"]),
                name=str(told["name"]),
                status=str(told["response"].get("status", "answered")),
                connection=text.connection,
                at=text.at,
            )
