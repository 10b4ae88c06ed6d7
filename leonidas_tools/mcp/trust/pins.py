"""Pin the definitions of tools at first use, and find later changes.

Trust on first use: the definitions that a server lists at first are trusted and stored. A tool
whose definition changes later does not run until the user trusts it (`leonidas mcp trust`). Until
then, the model does not receive the new definition. A tool that is added later is also trusted on
first use, with a warning: servers may add tools at any time. The setting `include` keeps them out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from leonidas_tools.errors import LeonidasError
from leonidas_tools.files.private import PrivateFile
from leonidas_tools.mcp.data_files import data_file
from leonidas_tools.redaction.visible import visible_logger

if TYPE_CHECKING:
    from leonidas_tools.settings.models import MCPServerSettings

logger = visible_logger(__name__)

_VERSION = 1
_MAX_FILE_LENGTH = 64 * 1024 * 1024
"""Most characters of a file of pins: a server may list other tools each time.

None is forgotten, since a tool that comes back changed would be new then.
"""


class PinsError(LeonidasError):
    """Raised when the file of the pins cannot be read or is invalid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolDefinition:
    """The part of a tool's definition that a model or a policy acts on."""

    name: str  # name at the server
    description: str
    input_schema: Mapping[str, Any]
    effect: str  # effect by the annotations
    destructive: bool = False  # whether the annotations say so explicitly

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint that does not depend on the order of keys."""
        canonical = json.dumps(_sort_lists(self.to_json()), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def changed_from(self, other: ToolDefinition) -> list[str]:
        """Return the names of the fields that differ."""
        before, now = _sort_lists(other.to_json()), _sort_lists(self.to_json())
        return [field for field in now | before if now.get(field) != before.get(field)]

    def to_json(self) -> dict[str, Any]:
        """Return the definition as plain JSON."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "effect": self.effect,
            **({"destructive": True} if self.destructive else {}),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """The pinned definition of one tool of a server."""

    # the definition at first use, or the definition that the user trusted last
    trusted: ToolDefinition
    waiting: ToolDefinition | None = None  # the current definition, if it differs

    def seen(self, now: ToolDefinition) -> Pin:
        """Return the pin after the server has listed a definition."""
        if now.fingerprint == self.trusted.fingerprint:
            return Pin(trusted=self.trusted)
        if replace(now, destructive=False).fingerprint == self.trusted.fingerprint:
            return Pin(trusted=now)  # it only asks more often
        return Pin(trusted=self.trusted, waiting=now)

    def to_json(self) -> dict[str, Any]:
        """Return the pin as plain JSON."""
        waiting = {} if self.waiting is None else {"waiting": self.waiting.to_json()}
        return {
            "sha256": self.trusted.fingerprint,
            "trusted": self.trusted.to_json(),
            **waiting,
        }


def identity_of(settings: MCPServerSettings) -> str:
    """Return the identity of a server: a fingerprint of its command or address."""
    reached_by: list[Any] = [settings.command, list(settings.args)]
    if settings.url is not None:
        parts = urlsplit(settings.url)
        # A key in the query may change; another path may lead to another server.
        reached_by = [f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"]
    return hashlib.sha256(json.dumps(reached_by).encode()).hexdigest()


class Pins:
    """The pins of one server, in a file that only the user can read and several processes share.

    Another server with the same name, but another `identity`, has its own pins.

    Example:
        >>> pins = Pins("notes", "an example")
        >>> said = ToolDefinition(name="add", description="Adds.", input_schema={}, effect="once")
        >>> pins.check({"add": said}), pins.check({"add": said})[0]["add"].waiting
        (({'add': Pin(trusted=ToolDefinition(name='add', description='Adds.', input_schema={}, \
effect='once', destructive=False), waiting=None)}, ['add']), None)
    """

    def __init__(self, server: str, identity: str) -> None:
        self._server = server
        self._identity = identity
        self._file = PrivateFile(data_file(server, "pins"))
        self._known: dict[str, Pin] = {}
        self._seen = self._file.stamp

    @property
    def are_stale(self) -> bool:
        """Return whether the file has changed since the last check."""
        return self._file.stamp != self._seen

    def check(self, listed: Mapping[str, ToolDefinition]) -> tuple[dict[str, Pin], list[str]]:
        """Return the pins of these tools, and the names of new tools; store the pins. This blocks.

        Raises:
            PinsError: The file cannot be read, so the trusted definitions are unknown, or would
                become too long.
        """
        try:
            with self._file.hold_lock():
                pins, new = self._check(listed)
        except OSError as error:
            logger.warning(
                "The pins of the MCP server %r cannot be stored: %s; they apply until this process "
                "ends",
                self._server,
                error.strerror or error,
            )
            pins, new = self._merge(listed, self.pinned())
        finally:
            self._seen = self._file.stamp
        self._known |= pins
        return pins, new

    def trust(self, shown: Mapping[str, str]) -> list[str]:
        """Trust the waiting definitions with the fingerprints that the user was shown. This blocks.

        Return the names of the tools that are trusted as they were shown. A tool that has changed
        again still waits.

        Raises:
            PinsError: The file cannot be read.
            OSError: The file cannot be written.
        """
        with self._file.hold_lock():
            every = self._read()
            pins = every.setdefault(self._identity, {})
            before = dict(pins)
            for name, pin in before.items():
                waiting = pin.waiting
                if waiting is not None and waiting.fingerprint == shown.get(name):
                    pins[name] = Pin(trusted=waiting)
            if pins != before:
                self._write(every)
            return [name for name, pin in pins.items() if _is_as_shown(pin, shown.get(name))]

    def pinned(self) -> dict[str, Pin]:
        """Return the pins in the file.

        Raises:
            PinsError: The file cannot be read.
        """
        return self._read().get(self._identity, {})

    def _check(self, listed: Mapping[str, ToolDefinition]) -> tuple[dict[str, Pin], list[str]]:
        every = self._read()
        before = every.get(self._identity, {})
        pins, new = self._merge(listed, before)
        every[self._identity] = {**before, **pins}
        if every[self._identity] != before:
            self._write(every)
        return pins, new

    def _merge(
        self, listed: Mapping[str, ToolDefinition], kept: Mapping[str, Pin]
    ) -> tuple[dict[str, Pin], list[str]]:
        """Merge pins; stored pins override remembered ones, as the user may have trusted some."""
        known = {**self._known, **kept}
        pins = {
            name: known[name].seen(tool) if name in known else Pin(trusted=tool)
            for name, tool in listed.items()
        }
        return pins, [name for name in listed if name not in known]

    def _read(self) -> dict[str, dict[str, Pin]]:
        try:
            text = self._file.read()
            if text is None:
                return {}
            data = json.loads(text)
            if data["version"] != _VERSION:
                raise ValueError(f"its version is {data['version']!r}")  # noqa: TRY301 - reported below
            return {
                identity: {name: _parse_pin(name, pin) for name, pin in pins.items()}
                for identity, pins in data["servers"].items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PinsError(
                f"the pins in {str(self._file.path)!r} cannot be read ({error}): fix or delete "
                f"the file; after deletion, the next listing of {self._server!r} is trusted"
            ) from error

    def _write(self, every: Mapping[str, Mapping[str, Pin]]) -> None:
        servers = {
            identity: {name: pin.to_json() for name, pin in pins.items()}
            for identity, pins in every.items()
        }
        text = json.dumps({"version": _VERSION, "servers": servers}, indent=1)
        if len(text) > _MAX_FILE_LENGTH:
            raise PinsError(
                f"{self._server!r} has listed too many tools: the pins in {str(self._file.path)!r} "
                f"would be longer than {_MAX_FILE_LENGTH:,} characters. If you trust it, delete "
                f"the file; the next listing is trusted then"
            )
        self._file.write(text)


def _parse_pin(name: str, data: Mapping[str, Any]) -> Pin:
    """Parse a pin; raise an error if the pin was modified."""
    trusted = _parse_definition(data["trusted"])
    if trusted.fingerprint != data["sha256"] or trusted.name != name:
        raise ValueError(f"the fingerprint of {name!r} does not match")
    waiting = data.get("waiting")
    return Pin(trusted=trusted, waiting=None if waiting is None else _parse_definition(waiting))


def _is_as_shown(pin: Pin, fingerprint: str | None) -> bool:
    return pin.waiting is None and pin.trusted.fingerprint == fingerprint


def _parse_definition(data: Mapping[str, Any]) -> ToolDefinition:
    definition = ToolDefinition(
        name=data["name"],
        description=data["description"],
        input_schema=data["input_schema"],
        effect=data["effect"],
        destructive=data.get("destructive") is True,
    )
    if not isinstance(definition.input_schema, dict) or not isinstance(definition.description, str):
        raise TypeError(f"the definition of {definition.name!r} is invalid")
    return definition


def _sort_lists(value: Any) -> Any:
    """Return a value with its unordered lists sorted: some servers shuffle them."""
    if isinstance(value, Mapping):
        return {
            key: sorted(inner, key=str)
            if key == "required" and isinstance(inner, list)
            else _sort_lists(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_sort_lists(inner) for inner in value]
    return value
