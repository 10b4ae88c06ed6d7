"""The table of all engines, and the engines of a runtime."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING

from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say
from leonidas_tools.workers.jobs import in_own_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.engines.base import Engine


@dataclass(frozen=True, slots=True)
class Entry:
    """An engine in the table."""

    name: str  # module and name of its class, whose argument is the place
    package: str  # package that must be installed for it
    is_durable: bool = False  # whether its calls outlive this process; it then also retries them


ENGINES: Mapping[str, Entry] = MappingProxyType(
    {
        "ray": Entry("leonidas_tools.engines.ray:RayEngine", "ray"),
        "temporal": Entry(
            "leonidas_tools.engines.temporal:TemporalEngine", "temporalio", is_durable=True
        ),
    }
)
"""The engines by the value of `runs_on`."""


def is_durable(runs_on: str) -> bool:
    """Return whether calls on this engine outlive this process; the engine also retries them."""
    return runs_on in ENGINES and ENGINES[runs_on].is_durable


class Engines:
    """The engines of a runtime, each loaded when it is first needed."""

    def __init__(self, places: Mapping[str, object]) -> None:
        self._places = places
        self._engines: dict[str, Engine] = {}

    def apply(self, places: Mapping[str, object]) -> None:
        """Use these places for new calls; running calls keep their engine."""
        before, self._places = self._places, places
        for name in [name for name in self._engines if places[name] != before[name]]:
            del self._engines[name]

    async def get(self, name: str) -> Engine:
        """Return an engine.

        Raises:
            ToolError: Its package is not installed.
        """
        while name not in self._engines:
            place, entry = self._places[name], ENGINES[name]
            if find_spec(entry.package) is None:
                raise ToolError(
                    say("engine_missing", engine=name),
                    status="unavailable",
                    reason_code="engine_away",
                )
            # The import of its package may take half a second.
            make = await in_own_thread(resolve_name, entry.name)
            if place == self._places[name]:  # otherwise, the settings changed during the import
                self._engines.setdefault(name, make(place))
        return self._engines[name]

    async def aclose(self) -> None:
        """Release all connections; a later call opens new ones."""
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            await engine.aclose()
