"""Notes of users, and full-text search in them."""

from __future__ import annotations

import json
import re
import time
import unicodedata
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, func, insert, literal_column, select, text

from leonidas_tools.session.user_data import MAX_NOTES, FoundNotes, Note
from leonidas_tools.store.recorder import owner_of
from leonidas_tools.store.schema import note_tags, notes
from leonidas_tools.store.user_table import UserTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection


_WORD = re.compile(r"\w+")
_ALONE = re.compile(
    "[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]"
)
"""Characters of scripts without spaces: each is a separate word."""
_MAX_WORD_LENGTH = 64
_MAX_QUERY_WORDS = 32


class NoteTable(UserTable[Note]):
    """Stores notes."""

    table, entry, max_entries = notes, Note, MAX_NOTES

    async def create(
        self, user: str | None, *, title: str, text: str, tags: Sequence[str] = ()
    ) -> Note:
        """Store a new note; raise `TooManyEntriesError` if the user has too many."""
        now = time.time()
        note = Note(
            id=uuid.uuid4().hex[:12],
            title=title,
            text=text,
            tags=tuple(sorted(set(tags))),
            created=now,
            updated=now,
        )
        async with self._database.writing() as connection:
            await self._add(connection, user, note)
        return note

    async def update(
        self,
        user: str | None,
        note_id: str,
        *,
        title: str | None = None,
        text: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Note | None:
        """Change a note of the user, except the fields that are `None`, and return it."""
        changes: dict[str, Any] = {"title": title, "text": text}
        changes["tags"] = None if tags is None else tuple(sorted(set(tags)))
        changes = {name: value for name, value in changes.items() if value is not None}
        async with self._database.writing() as connection:
            before = await self._find(connection, user, note_id)
            if before is None:
                return None
            after = replace(before, **changes, updated=time.time())
            await self._replace(connection, user, after)  # the index of words needs a new row
        return after

    async def find(
        self, user: str | None, *, query: str = "", tag: str | None = None, limit: int = 10
    ) -> FoundNotes:
        """Return notes with all words of the query, the best first; without words, the latest.

        The words match in any order, without regard to case and accents, and as prefixes of words.
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
            rows = (await connection.execute(last, values)).mappings().all()
        return FoundNotes(notes=tuple(map(self._build, rows)), total=total)

    def _build(self, row: Mapping[Any, Any]) -> Note:
        return replace(super()._build(row), tags=tuple(row["tags"]))

    async def _insert(self, connection: AsyncConnection, entry: Note, **more: Any) -> None:
        more["tags"] = json.dumps(entry.tags)
        more["words"] = _indexed_words(" ".join([entry.title, entry.text, *entry.tags]))
        await super()._insert(connection, entry, **more)
        if entry.tags:
            rows = [{"note": entry.id, "tag": tag} for tag in entry.tags]
            await connection.execute(insert(note_tags), rows)

    async def _remove(self, connection: AsyncConnection, id_: str) -> None:
        await connection.execute(delete(note_tags).where(note_tags.c.note == id_))
        await super()._remove(connection, id_)


def _match(groups: Sequence[Sequence[str]]) -> str:
    """Return a query for FTS5; the words have letters and digits only."""
    return " AND ".join(f'"{" ".join(group)}"*' for group in groups)


def _tsquery(groups: Sequence[Sequence[str]]) -> str:
    """Return a query for PostgreSQL; the words have letters and digits only."""
    return " & ".join(f"({' <-> '.join([*group[:-1], f'{group[-1]}:*'])})" for group in groups)


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
