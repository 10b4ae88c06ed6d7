"""Notes of users, and full-text search in them."""

from __future__ import annotations

import json
import re
import time
import unicodedata
import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, func, insert, literal_column, select, text

from leonidas_tools.session.notes import MAX_NOTES, FoundNotes, Note, TooManyNotesError
from leonidas_tools.store.recorder import owner_of
from leonidas_tools.store.schema import note_tags, notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Row
    from sqlalchemy.ext.asyncio import AsyncConnection

    from leonidas_tools.store.database import Database


_WORD = re.compile(r"\w+")
_ALONE = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]"
)
"""Characters of scripts without spaces: each is a separate word."""
_MAX_WORD_LENGTH = 64
_MAX_QUERY_WORDS = 32


class NoteTable:
    """Stores notes; each method accesses those of one user only.

    The user `None` means sessions without a user.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, user: str | None, *, title: str, text: str, tags: Sequence[str] = ()
    ) -> Note:
        """Store a new note.

        Raises:
            TooManyNotesError: The user has the maximum number of notes.
            StoreError: The note cannot be written.
        """
        now = time.time()
        note = Note(
            id=uuid.uuid4().hex[:12],
            title=title,
            text=text,
            tags=tuple(sorted(set(tags))),
            created=now,
            updated=now,
        )
        owner = owner_of(user)
        async with self._database.writing() as connection:
            count = select(func.count()).select_from(notes).where(notes.c.user == owner)
            if (await connection.execute(count)).scalar_one() >= MAX_NOTES:
                raise TooManyNotesError
            await _insert(connection, owner, note)
        return note

    async def read(self, user: str | None, note_id: str) -> Note | None:
        """Return a note of the user.

        Raises:
            StoreError: The note cannot be read.
        """
        async with self._database.reading() as connection:
            return await _read(connection, owner_of(user), note_id)

    async def update(
        self,
        user: str | None,
        note_id: str,
        *,
        title: str | None = None,
        text: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Note | None:
        """Change a note of the user, except the fields that are `None`, and return it.

        Raises:
            StoreError: The note cannot be written.
        """
        owner = owner_of(user)
        async with self._database.writing() as connection:
            before = await _read(connection, owner, note_id)
            if before is None:
                return None
            after = Note(
                id=note_id,
                title=before.title if title is None else title,
                text=before.text if text is None else text,
                tags=before.tags if tags is None else tuple(sorted(set(tags))),
                created=before.created,
                updated=time.time(),
            )
            await _delete(connection, note_id)
            await _insert(connection, owner, after)
        return after

    async def delete(self, user: str | None, note_id: str) -> Note | None:
        """Delete a note of the user, and return it.

        Raises:
            StoreError: The note cannot be written.
        """
        async with self._database.writing() as connection:
            before = await _read(connection, owner_of(user), note_id)
            if before is not None:
                await _delete(connection, note_id)
        return before

    async def restore(self, user: str | None, note: Note) -> None:
        """Store a note as it was, even if it was changed or deleted since.

        Raises:
            StoreError: The note cannot be written.
        """
        async with self._database.writing() as connection:
            await _delete(connection, note.id)
            await _insert(connection, owner_of(user), note)

    async def find(
        self, user: str | None, *, query: str = "", tag: str | None = None, limit: int = 10
    ) -> FoundNotes:
        """Return notes with all words of the query, the best first; without words, the latest.

        The words match in any order, without regard to case and accents, and as prefixes of words.

        Raises:
            StoreError: The notes cannot be read.
        """
        where: list[ColumnElement[bool]] = [notes.c.user == owner_of(user)]
        if tag is not None:
            tagged = (note_tags.c.note == notes.c.id) & (note_tags.c.tag == tag)
            where.append(exists().where(tagged))
        groups = _query_words(query)
        if query.strip() and not groups:
            return FoundNotes(notes=(), total=0)
        found, values = select(notes), dict[str, Any]()
        order: ColumnElement[Any] = notes.c.updated.desc()
        if groups and self._database.is_file:
            found = found.join(text("note_words"), text("note_words.rowid = notes.number"))
            where.append(literal_column("note_words").op("MATCH")(bindparam("words")))
            order, values = literal_column("note_words.rank"), {"words": _match(groups)}
        elif groups:
            asked = func.to_tsquery(literal_column("'simple'"), bindparam("words"))
            vector: ColumnElement[Any] = literal_column("to_tsvector('simple', notes.words)")
            where.append(vector.op("@@")(asked))
            order, values = func.ts_rank(vector, asked).desc(), {"words": _tsquery(groups)}
        found = found.where(*where)
        async with self._database.reading() as connection:
            counted = select(func.count()).select_from(found.subquery())
            total = (await connection.execute(counted, values)).scalar_one()
            last = found.order_by(order, notes.c.number.desc()).limit(limit)
            rows = (await connection.execute(last, values)).all()
        return FoundNotes(notes=tuple(map(_note, rows)), total=total)


def _match(groups: Sequence[Sequence[str]]) -> str:
    """Return a query for FTS5; the words have letters and digits only."""
    return " AND ".join(f'"{" ".join(group)}"*' for group in groups)


def _tsquery(groups: Sequence[Sequence[str]]) -> str:
    """Return a query for PostgreSQL; the words have letters and digits only."""
    return " & ".join(f"({' <-> '.join([*group[:-1], f'{group[-1]}:*'])})" for group in groups)


async def _read(connection: AsyncConnection, owner: str, note_id: str) -> Note | None:
    query = select(notes).where(notes.c.id == note_id, notes.c.user == owner)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _note(row)


async def _insert(connection: AsyncConnection, owner: str, note: Note) -> None:
    row = {
        "id": note.id,
        "user": owner,
        "title": note.title,
        "text": note.text,
        "tags": json.dumps(note.tags),
        "words": _indexed_words(" ".join([note.title, note.text, *note.tags])),
        "created": note.created,
        "updated": note.updated,
    }
    await connection.execute(insert(notes), row)
    if note.tags:
        rows = [{"note": note.id, "tag": tag} for tag in note.tags]
        await connection.execute(insert(note_tags), rows)


async def _delete(connection: AsyncConnection, note_id: str) -> None:
    await connection.execute(delete(note_tags).where(note_tags.c.note == note_id))
    await connection.execute(delete(notes).where(notes.c.id == note_id))


def _note(row: Row[Any]) -> Note:
    return Note(
        id=row.id,
        title=row.title,
        text=row.text,
        tags=tuple(json.loads(row.tags)),
        created=row.created,
        updated=row.updated,
    )


def _indexed_words(text: str) -> str:
    """Return the words of a text, without case and accents, in ASCII, which needs no locale.

    Example:
        >>> _indexed_words("Café, 明天!"), _indexed_words("Да")
        ('cafe xe6988e xe5a4a9', 'xd0b4d0b0')
    """
    return " ".join(word for group in _groups(text) for word in group)


def _query_words(text: str) -> list[list[str]]:
    """Return the words of a query, in groups that are adjacent in the text.

    Example:
        >>> _query_words("buy 牛奶")
        [['buy'], ['xe7899b', 'xe5a5b6']]
    """
    return _groups(text)[:_MAX_QUERY_WORDS]


def _groups(text: str) -> list[list[str]]:
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(each for each in plain if not unicodedata.combining(each))
    plain = unicodedata.normalize("NFC", plain)  # a Hangul syllable is one character again
    return [group for word in _WORD.findall(plain) for group in _split(word.replace("_", " "))]


def _split(word: str) -> list[list[str]]:
    """Split a word into runs of `_ALONE` characters and the words between them."""
    groups: list[list[str]] = []
    for piece in word.split():
        at = 0
        for run in re.finditer(f"(?:{_ALONE.pattern})+", piece):
            groups += [[_safe(piece[at : run.start()])]] if run.start() > at else []
            groups.append([_safe(each) for each in run[0]])
            at = run.end()
        groups += [[_safe(piece[at:])]] if at < len(piece) else []
    return groups


def _safe(word: str) -> str:
    word = word[:_MAX_WORD_LENGTH]
    return word if word.isascii() else f"x{word.encode('utf-8', 'surrogatepass').hex()}"
