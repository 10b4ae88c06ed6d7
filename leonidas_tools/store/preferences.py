"""Preferences of users: a JSON object per user, with a version that prevents lost updates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from sqlalchemy import insert, select, update

from leonidas_tools.approvals.session_policy import Preferred
from leonidas_tools.calls.listeners import Listeners
from leonidas_tools.errors import StaleVersionError, StoreError
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.plain import plain
from leonidas_tools.rules.rule import Mode
from leonidas_tools.settings.rules import AlwaysSettings
from leonidas_tools.store.rows import Preferences
from leonidas_tools.store.schema import preferences

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.rules.rule import Rule
    from leonidas_tools.store.database import Database

logger = visible_logger(__name__)

ALWAYS, MODE = "always", "mode"

_MAX_BYTES = 262_144
_UNKNOWN = Preferred(is_known=False)


class PreferenceTable:
    """Reads and writes the preferences of users; new preferences need no migration.

    Names and JSON values are free. The library itself reads two names: `mode` is the mode of the
    user's sessions (`ask`, `autonomous`, `read_only`), and `always` has the questions with a
    permanent answer, like the setting `policies.always`. A change applies to sessions at once.
    Methods raise `StoreError` if the database cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners = Listeners[Preferences]("preferences")

    def on_change(self, listener: Callable[[Preferences], None]) -> Callable[[], None]:
        """Call `listener` after every change by this process.

        It runs on the event loop that wrote the change. A session reads changes by other processes
        before a call that has an effect. Return a function that unsubscribes the listener.
        """
        return self._listeners.subscribe(listener)

    @property
    def may_be_lost(self) -> bool:
        """Return whether the database has lost records, possibly with preferences."""
        return self._database.has_lost

    async def read(self, user: str) -> Preferences:
        """Return a user's preferences; version 0 if none were ever set."""
        async with self._database.reading() as connection:
            return await _read(connection, user)

    async def write(
        self, user: str, values: Mapping[str, Any], *, version: int | None = None
    ) -> Preferences:
        """Replace all of a user's preferences.

        `version` is the version that the values are based on; `None` accepts any version.

        Raises:
            StaleVersionError: The preferences have changed since that version.
            ValueError: The values are not plain JSON or too long, or `mode` or `always` is invalid.
            StoreError: The preferences cannot be written.
        """
        return await self._change(user, lambda _: values, version)

    async def patch(
        self, user: str, changes: Mapping[str, Any], *, version: int | None = None
    ) -> Preferences:
        """Change some of a user's preferences by JSON Merge Patch (RFC 7396): `None` removes one.

        `version` is the version that the changes are based on; `None` accepts any version.

        Raises:
            StaleVersionError: The preferences have changed since that version.
            ValueError: The values are not plain JSON or too long, or `mode` or `always` is invalid.
            StoreError: The preferences cannot be written.
        """
        return await self._change(user, lambda before: _patch(before, changes), version)

    async def _change(
        self,
        user: str,
        changed: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        version: int | None,
    ) -> Preferences:
        async with self._database.writing() as connection:
            before = await _read(connection, user, lock=True)
            _check(before, version)
            after = await _write(connection, before, changed(before.values))
        self._listeners.notify(after)
        return after


async def _read(connection: AsyncConnection, user: str, *, lock: bool = False) -> Preferences:
    query = select(preferences).where(preferences.c.user == user)
    found = (await connection.execute(query.with_for_update() if lock else query)).one_or_none()
    if found is None:
        return Preferences(user=user)
    try:
        values = json.loads(found.data)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise StoreError(f"The preferences of {user!r} are damaged: write them again")
    return Preferences(user=user, values=values, version=found.version, updated=found.updated)


async def _write(
    connection: AsyncConnection, before: Preferences, values: Mapping[str, Any]
) -> Preferences:
    preferred_by(values)  # the names that the library reads must be valid
    shown, cut = plain(dict(values), _MAX_BYTES)
    if cut:
        raise ValueError(f"The preferences are longer than {_MAX_BYTES} bytes: keep fewer")
    after = Preferences(
        user=before.user, values=shown, version=before.version + 1, updated=time.time()
    )
    row = {"data": json.dumps(shown), "version": after.version, "updated": after.updated}
    if before.version == 0:
        await connection.execute(insert(preferences).values(user=before.user, **row))
    else:
        changed = update(preferences).where(preferences.c.user == before.user).values(row)
        await connection.execute(changed)
    return after


def _check(before: Preferences, version: int | None) -> None:
    if version is not None and version != before.version:
        raise StaleVersionError(
            f"The preferences of {before.user!r} are of version {before.version}, not {version}: "
            "read them again and repeat the change",
            current=before.version,
        )


def _patch(values: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    patched = dict(values) if isinstance(values, Mapping) else {}
    for name, change in changes.items():
        if change is None:
            patched.pop(name, None)
        elif isinstance(change, Mapping):
            patched[name] = _patch(patched.get(name), change)
        else:
            patched[name] = change
    return patched


def preferred_or_strictest(preferences: Preferences, *, may_be_lost: bool) -> Preferred:
    """Return a user's preferences for the session policy, stricter ones if they are invalid.

    If the database may have lost records (`may_be_lost`), missing preferences are unknown.
    """
    if preferences.version == 0 and may_be_lost:
        return _UNKNOWN
    values = preferences.values
    try:
        return preferred_by(values)
    except ValueError as error:
        logger.warning("The preferences of %r cannot all be read: %s", preferences.user, error)
    try:
        return preferred_by({MODE: values.get(MODE)})
    except ValueError:
        return Preferred(mode=Mode.READ_ONLY)


def preferred_by(values: Mapping[str, Any]) -> Preferred:
    """Return a user's preferences for the session policy; raise `ValueError` if invalid.

    Example:
        >>> preferred_by({"mode": "autonomous", "voice": "Kore"}).mode
        <Mode.AUTONOMOUS: 'autonomous'>
    """
    mode, always = values.get(MODE), values.get(ALWAYS) or {}
    options = [each.value for each in Mode]
    if mode is not None and mode not in options:
        raise ValueError(f"The preference {MODE!r} is {mode!r}: choose one of {options}")
    if not isinstance(always, Mapping):
        raise ValueError(f"The preference {ALWAYS!r} must map names to answers")  # noqa: TRY004 - the stored data is wrong, not the program
    rules = tuple(_rule(str(name), entry) for name, entry in always.items())
    return Preferred(mode=None if mode is None else Mode(mode), always=rules)


def always_patch(rule: Rule) -> dict[str, Any]:
    """Return the patch of the preferences that stores a permanent answer."""
    entry = {"tools": list(rule.tools), "question": rule.lifts, "fingerprint": rule.fingerprint}
    servers = {"servers": list(rule.servers)} if rule.servers else {}
    return {ALWAYS: {rule.name: {**entry, **servers}}}


def _rule(name: str, entry: Any) -> Rule:
    try:
        return AlwaysSettings.model_validate(entry).rule(name)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(step) for step in (ALWAYS, name, *first["loc"]))
        raise ValueError(f"The preference {place!r} cannot be read: {first['msg']}") from None
