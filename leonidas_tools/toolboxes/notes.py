"""Notes of a user: create, read, change, delete, list and search them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import ToolResult, ToolSession
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import StoreError, ToolError
from leonidas_tools.results.jsonable import utf8_text
from leonidas_tools.results.texts import say
from leonidas_tools.session.user_data import (
    MAX_NOTES,
    Note,
    TooManyEntriesError,
    UserData,
    require_table,
)
from leonidas_tools.settings.fields import Count
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools.tool import Tool, tool
from leonidas_tools.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from leonidas_tools.store.notes import NoteTable

_MAX_TITLE_LENGTH = 80
_MAX_SPOKEN_LENGTH = 400
_MAX_EXCERPT_LENGTH = 200
_MAX_LISTED = 50
_MAX_SPOKEN = 3

Title = Annotated[str, Field(max_length=_MAX_TITLE_LENGTH)]
Tags = Annotated[list[Annotated[str, Field(min_length=1, max_length=40)]], Field(max_length=20)]
Limit = Annotated[int, Field(ge=1, le=_MAX_LISTED)]


class NotesSettings(SettingsModel):
    """Settings of the notes.

    Args:
        max_characters: The maximum length of a note, in characters.
    """

    max_characters: Count = 20_000


class NoteTools:
    """The note tools."""

    def __init__(self, settings: NotesSettings) -> None:
        self._settings = settings

    @tool(category="storage", effect="once", tags=["notes"])
    async def create_note(
        self, text: str, ctx: ToolContext, title: Title | None = None, tags: Tags | None = None
    ) -> ToolResult:
        """Keep a note for the user.

        Args:
            text: What to note, in the user's words.
            title: A few words to call it by; by default the beginning of the text.
            tags: Words to find it by.
        """
        keeper, user = _keeper(ctx.session), user_of(ctx.session)
        text = _check_text(text, self._settings)
        title = _one_line(title or "") or _truncate(text, _MAX_TITLE_LENGTH)
        with _convert_errors():
            note = await keeper.create(user, title=title, text=text, tags=_tags(tags))
        ctx.undo(keeper.delete, user, note.id)
        return _result(note, say("note_created", title=note.title))

    @tool(category="storage", effect="read", tags=["notes"])
    async def read_note(self, note_id: str, ctx: ToolContext) -> ToolResult:
        """Read a whole note of the user.

        Args:
            note_id: Its id, as list_notes and search_notes give it.
        """
        with _convert_errors():
            note = await _keeper(ctx.session).read(user_of(ctx.session), note_id)
        note = _require(note, note_id)
        spoken = _truncate(note.text, _MAX_SPOKEN_LENGTH)
        return _result(note, say("note_read", title=note.title, text=spoken))

    @tool(category="storage", effect="idempotent", tags=["notes"])
    async def update_note(
        self,
        note_id: str,
        ctx: ToolContext,
        text: str | None = None,
        title: Title | None = None,
        tags: Tags | None = None,
    ) -> ToolResult:
        """Change a note of the user; what is left out stays as it is.

        Args:
            note_id: Its id, as list_notes and search_notes give it.
            text: The new text, which replaces the old.
            title: The new title.
            tags: All tags that it has from now on.
        """
        keeper, user = _keeper(ctx.session), user_of(ctx.session)
        with _convert_errors():
            before = _require(await keeper.read(user, note_id), note_id)
            ctx.undo(keeper.restore, user, before)
            after = await keeper.update(
                user,
                note_id,
                text=None if text is None else _check_text(text, self._settings),
                title=_one_line(title or "") or None,
                tags=None if tags is None else _tags(tags),
            )
        after = _require(after, note_id)
        return _result(after, say("note_updated", title=after.title))

    @tool(category="storage", effect="once", tags=["notes"], requires_approval=True)
    async def delete_note(self, note_id: str, ctx: ToolContext) -> ToolResult:
        """Delete a note of the user for good; the user is asked first.

        Args:
            note_id: Its id, as list_notes and search_notes give it.
        """
        keeper, user = _keeper(ctx.session), user_of(ctx.session)
        with _convert_errors():
            note = _require(await keeper.delete(user, note_id), note_id)
        ctx.undo(keeper.restore, user, note)
        return ToolResult(
            result={"id": note.id, "title": note.title},
            speech=say("note_deleted", title=note.title),
        )

    @tool(category="storage", effect="read", tags=["notes"])
    async def list_notes(
        self, ctx: ToolContext, tag: str | None = None, limit: Limit = 10
    ) -> ToolResult:
        """List the user's notes, the latest first.

        Args:
            tag: Only those with this tag.
            limit: The maximum number of notes.
        """
        return await _find(ctx.session, "", tag, limit)

    @tool(category="storage", effect="read", tags=["notes"])
    async def search_notes(
        self, query: str, ctx: ToolContext, tag: str | None = None, limit: Limit = 10
    ) -> ToolResult:
        """Search the user's notes for words in their titles, texts and tags.

        Args:
            query: Words that all occur in the note, in any order; beginnings of words suffice.
            tag: Only notes with this tag.
            limit: The maximum number of notes.
        """
        return await _find(ctx.session, query, tag, limit)


def _make(settings: NotesSettings) -> Sequence[Tool[..., Any]]:
    notes = NoteTools(settings)
    return (
        notes.create_note,
        notes.read_note,
        notes.update_note,
        notes.delete_note,
        notes.list_notes,
        notes.search_notes,
    )


async def _find(session: ToolSession, query: str, tag: str | None, limit: int) -> ToolResult:
    wanted = None if tag is None else next(iter(_tags([tag])), None)
    with _convert_errors():
        found = await _keeper(session).find(user_of(session), query=query, tag=wanted, limit=limit)
    if not found.notes:
        what = " ".join(filter(None, (query, tag)))
        message = say("no_notes_found", query=what) if what else say("no_notes")
        return ToolResult.no_results(message, speech=message)
    listed = [_short(note) for note in found.notes]
    titles = ", ".join(note.title for note in found.notes[:_MAX_SPOKEN])
    key = "some_notes" if found.total <= _MAX_SPOKEN else "many_notes"
    if found.total == 1:
        speech = say("one_note", titles=titles)
    else:
        speech = say(key, count=found.total, titles=titles)
    return ToolResult(result={"total": found.total, "notes": listed}, speech=speech)


def _keeper(session: ToolSession) -> NoteTable:
    return require_table(session.get(UserData).notes, "notes_need_store")


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert errors of the store into errors for the model."""
    try:
        yield
    except TooManyEntriesError as error:
        message = say("too_many_notes", most=MAX_NOTES)
        raise ToolError(message, status="limited", reason_code="too_many_notes") from error
    except StoreError as error:
        message = say("notes_unavailable")
        raise ToolError(message, status="unavailable", reason_code="store_unavailable") from error


def _require(note: Note | None, note_id: str) -> Note:
    if note is None:
        raise ToolError(
            say("unknown_note", note=note_id),
            status="not_found",
            reason_code="unknown_note",
            retry_hint=say("unknown_note_hint"),
        )
    return note


def _clean(text: str) -> str:
    """Return a text without characters that a database refuses."""
    return utf8_text(text).replace("\0", "").strip()


def _one_line(text: str) -> str:
    return " ".join(_clean(text).split())


def _check_text(text: str, settings: NotesSettings) -> str:
    text = _clean(text)
    if not text:
        raise ToolError(say("blank_note"), status="invalid_argument", reason_code="blank_note")
    if len(text) > settings.max_characters:
        message = say("too_long_note", characters=len(text), most=settings.max_characters)
        raise ToolError(message, status="invalid_argument", reason_code="too_long_note")
    return text


def _tags(tags: Sequence[str] | None) -> list[str]:
    """Return normalized tags: sorted, on one line, in lower case, without a leading `#`."""
    plain = (_one_line(each).lstrip("#").strip().casefold() for each in tags or ())
    return sorted({each for each in plain if each})


def _truncate(text: str, most: int) -> str:
    """Return the beginning of a text, cut between words; only the first line for a title."""
    if most == _MAX_TITLE_LENGTH:
        text = text.partition("\n")[0]
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    return f"{cut.rpartition(' ')[0] or cut}…"


def _result(note: Note, speech: str) -> ToolResult:
    return ToolResult(result={**_times(note), "text": note.text}, speech=speech)


def _short(note: Note) -> dict[str, Any]:
    return {**_times(note), "text": _truncate(note.text, _MAX_EXCERPT_LENGTH)}


def _times(note: Note) -> dict[str, Any]:
    updated = datetime.fromtimestamp(note.updated, UTC).isoformat(timespec="seconds")
    return {"id": note.id, "title": note.title, "tags": list(note.tags), "updated": updated}


TOOLBOX = Toolbox(
    summary="Notes of the user: create, read, change, delete, list and search them.",
    make=_make,
    settings=NotesSettings,
    access=frozenset({"store"}),
)
