"""What memories, notes and reminders of users have in common in the database."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from sqlalchemy import delete, func, insert, select

from leonidas_tools.session.user_data import Memory, Note, Reminder, TooManyEntriesError
from leonidas_tools.store.recorder import owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import ColumnElement, Select, Table
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database

T = TypeVar("T", Memory, Note, Reminder)


class UserTable(Generic[T]):
    """Stores entries with an `id`; each method accesses those of one user only.

    The user `None` means sessions without a user. All methods raise `StoreError` if the entries
    cannot be read or written.
    """

    table: ClassVar[Table]
    entry: ClassVar[Any]
    """The class of the entries."""
    max_entries: ClassVar[int]
    """Maximum number of entries of one user."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, user: str | None, id_: str) -> T | None:
        """Return an entry of the user."""
        async with self._database.reading() as connection:
            return await self._find(connection, user, id_)

    async def delete(self, user: str | None, id_: str) -> T | None:
        """Delete an entry of the user, and return it."""
        async with self._database.writing() as connection:
            found = await self._find(connection, user, id_)
            if found is not None:
                await self._remove(connection, id_)
        return found

    async def restore(self, user: str | None, entry: T) -> None:
        """Store an entry as it was, even if it was changed or deleted since."""
        async with self._database.writing() as connection:
            await self._replace(connection, user, entry)

    def _where(self, user: str | None, id_: str) -> tuple[ColumnElement[bool], ...]:
        return self.table.c.user == owner_of(user), self.table.c.id == id_

    async def _find(self, connection: AsyncConnection, user: str | None, id_: str) -> T | None:
        found = await self._fetch(connection, select(self.table).where(*self._where(user, id_)))
        return found[0] if found else None

    async def _fetch(self, connection: AsyncConnection, query: Select[Any]) -> list[T]:
        return [self._build(row) for row in (await connection.execute(query)).mappings()]

    def _build(self, row: Mapping[Any, Any]) -> T:
        built: T = self.entry(**{each.name: row[each.name] for each in fields(self.entry)})
        return built

    async def _add(self, connection: AsyncConnection, user: str | None, entry: T) -> None:
        await self._check_number(connection, user)
        await self._insert(connection, entry, user=owner_of(user))

    async def _check_number(
        self, connection: AsyncConnection, user: str | None, added: int = 1
    ) -> None:
        of_user = self.table.c.user == owner_of(user)
        count = select(func.count()).select_from(self.table).where(of_user)
        if (await connection.execute(count)).scalar_one() + added > self.max_entries:
            raise TooManyEntriesError(
                f"there are {self.max_entries} {self.table.name} of {user!r}: delete some"
            )

    async def _insert(self, connection: AsyncConnection, entry: T, **more: Any) -> None:
        values = {key: value for key, value in asdict(entry).items() if key in self.table.c}
        await connection.execute(insert(self.table), values | more)

    async def _replace(self, connection: AsyncConnection, user: str | None, entry: T) -> None:
        await self._remove(connection, entry.id)
        await self._insert(connection, entry, user=owner_of(user))

    async def _remove(self, connection: AsyncConnection, id_: str) -> None:
        await connection.execute(delete(self.table).where(self.table.c.id == id_))
