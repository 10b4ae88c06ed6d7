"""A function call that the simulated model makes."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- pydantic reads the annotations
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from leonidas_tools.simulator.wire import Message


class Absent(Enum):
    """Marks a field that is not sent at all; None is sent as null."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return self.name


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One function call to send.

    Args:
        name: The function.
        args: Its arguments; `ABSENT` omits the field, None sends null.
        id: Its id; `ABSENT` generates one (`call-1`, …), None sends no id.
        undeclared: Send it although the client declared no such function.

    Example:
        >>> FunctionCall("get_weather", {"city": "Lisbon"}).to_wire(1)
        {'id': 'call-1', 'name': 'get_weather', 'args': {'city': 'Lisbon'}}
        >>> FunctionCall("ping", None, id=None).to_wire(2)
        {'name': 'ping', 'args': None}
    """

    name: str
    args: Mapping[str, Any] | Literal[Absent.ABSENT] | None = ABSENT
    _: KW_ONLY
    id: str | Literal[Absent.ABSENT] | None = ABSENT
    undeclared: bool = False

    def id_for(self, ordinal: int) -> str | None:
        """Return the id of the call; `ordinal` is its number on the connection."""
        return f"call-{ordinal}" if self.id is ABSENT else self.id

    def to_wire(self, ordinal: int) -> Message:
        """Return the call as a JSON object; `ordinal` is its number on the connection."""
        call_id = self.id_for(ordinal)
        body: Message = {} if call_id is None else {"id": call_id}
        body["name"] = self.name
        if self.args is not ABSENT:
            body["args"] = self.args
        return body
