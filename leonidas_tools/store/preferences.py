"""Preferences of users: JSON by user, with a version against lost updates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from leonidas_tools.errors import StaleVersionError, StoreError
from leonidas_tools.redaction import described
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.results.plain import plain
from leonidas_tools.store.preferred import preferred_by
from leonidas_tools.store.rows import Preferences
from leonidas_tools.store.tables import preferences

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database

logger = visible_logger(__name__)

_MOST_BYTES = 262_144


class PreferenceTable:
    """Reads and writes preferences; new ones need no migration.

    They are any JSON, by any names. Two names mean something to the library: `mode` is how much
    the sessions of the user may do by themselves (`ask`, `autonomous`, `read_only`), and `always`
    holds the questions that were answered for good, as `policies.always` of the settings does.
    A change applies at once in running sessions.

    Args:
        database: Where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners: list[Callable[[Preferences], None]] = []

    def on_change(self, listener: Callable[[Preferences], None]) -> Callable[[], None]:
        """Call back with what each user prefers from now on, when it is changed here.

        A session reads what other processes change before a call that changes something.

        Args:
            listener: Given all that the user prefers; called on the loop that has written it.

        Returns:
            A function that ends it.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return unsubscribe

    @property
    def may_be_lost(self) -> bool:
        """Return whether the database has lost records, so that there may have been preferences."""
        return self._database.has_lost

    def _changed(self, after: Preferences) -> Preferences:
        for listener in tuple(self._listeners):
            try:
                listener(after)
            except Exception as error:  # noqa: BLE001 - its fault must not undo the change
                logger.warning("A listener for preferences failed: %s", described(error))
        return after

    async def read(self, user: str) -> Preferences:
        """Return a user's preferences; version 0 and none where nothing was ever set.

        Args:
            user: The user's id.

        Raises:
            StoreError: They cannot be read.
        """
        async with self._database.reading() as connection:
            return await _read(connection, user)

    async def write(
        self, user: str, values: Mapping[str, Any], *, version: int | None = None
    ) -> Preferences:
        """Replace all of a user's preferences.

        Args:
            user: The user's id.
            values: By name; plain JSON.
            version: The version they were made from; any where left out.

        Raises:
            StaleVersionError: They have been changed since that version.
            ValueError: They are no plain JSON, too long, or `mode` or `always` is none.
            StoreError: They cannot be written.
        """
        async with self._database.writing() as connection:
            before = await _read(connection, user, lock=True)
            _check(before, version)
            after = await _write(connection, before, values)
        return self._changed(after)

    async def patch(
        self, user: str, changes: Mapping[str, Any], *, version: int | None = None
    ) -> Preferences:
        """Change some of a user's preferences, as RFC 7396 has it: `None` takes one away.

        Args:
            user: The user's id.
            changes: By name; a mapping changes the parts of what is there.
            version: The version they were made from; any where left out.

        Raises:
            StaleVersionError: They have been changed since that version.
            ValueError: They are no plain JSON, too long, or `mode` or `always` is none.
            StoreError: They cannot be written.
        """
        async with self._database.writing() as connection:
            before = await _read(connection, user, lock=True)
            _check(before, version)
            after = await _write(connection, before, _patched(before.values, changes))
        return self._changed(after)


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
    preferred_by(values)  # what the library itself reads must not be misspelt
    shown, cut = plain(dict(values), _MOST_BYTES)
    if cut:
        raise ValueError(f"The preferences are longer than {_MOST_BYTES} bytes: keep fewer")
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
            "read them again, and change those",
            current=before.version,
        )


def _patched(values: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    patched = dict(values) if isinstance(values, Mapping) else {}
    for name, change in changes.items():
        if change is None:
            patched.pop(name, None)
        elif isinstance(change, Mapping):
            patched[name] = _patched(patched.get(name), change)
        else:
            patched[name] = change
    return patched
