"""Memories of a user: remember, recall by meaning, and forget."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.embeddings import EmbedderSettings, make_embedder
from leonidas_tools.embeddings.embedder import import_numpy
from leonidas_tools.errors import ModelError, StoreError, ToolError
from leonidas_tools.files.beneath import open_regular
from leonidas_tools.results.jsonable import is_utf8, utf8_text
from leonidas_tools.results.texts import say
from leonidas_tools.session.user_data import (
    MAX_MEMORIES,
    Memory,
    TooManyEntriesError,
    UserData,
    require_table,
)
from leonidas_tools.settings.fields import Count
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.settings.root_settings import Folder
from leonidas_tools.tools.tool import Tool, tool
from leonidas_tools.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from leonidas_tools.store.memories import MemoryTable

_MAX_QUERY_LENGTH = 1_000
_MAX_SPOKEN_LENGTH = 400
_AT_ONCE = 32

Limit = Annotated[int, Field(ge=1, le=50)]
_MAX_FILES = 2_000
_MAX_FILE_BYTES = 512 * 1024
_MAX_PIECE_LENGTH = 1_000


class MemorySettings(SettingsModel):
    """Settings of the memory.

    Args:
        embeddings: The embeddings; memories can be recalled only with the same embeddings.
        max_characters: The maximum length of a memory, in characters.
        folders: Folders whose text files `index_folders` reads, relative to the working directory.
    """

    embeddings: EmbedderSettings = EmbedderSettings()
    max_characters: Count = 2_000
    folders: tuple[Folder, ...] = ()


class MemoryTools:
    """The memory tools.

    Raises:
        ConfigurationError: A package or an API key for the embeddings is missing.
    """

    def __init__(self, settings: MemorySettings) -> None:
        self._settings = settings
        self._embedder = make_embedder(settings.embeddings)
        import_numpy()  # the nearest-neighbour search needs it with any embedder

    @tool(category="storage", effect="idempotent", tags=["memory"])
    async def remember(self, text: str, ctx: ToolContext) -> ToolResult:
        """Remember a fact about the user, or for the user, over all later conversations.

        Args:
            text: The fact in one or two sentences that can be understood by themselves.
        """
        text = utf8_text(text).replace("\0", "").strip()
        if not text:
            message = say("blank_memory")
            raise ToolError(message, status="invalid_argument", reason_code="blank_memory")
        if len(text) > (most := self._settings.max_characters):
            message = say("too_long_memory", characters=len(text), most=most)
            raise ToolError(message, status="invalid_argument", reason_code="too_long_memory")
        keeper, user = _keeper(ctx), user_of(ctx.session)
        with _convert_errors():
            [kept] = await keeper.remember(user, [text], self._embedder)
        return ToolResult(result=_describe(kept), speech=say("remembered"))

    @tool(category="storage", effect="read", tags=["memory"])
    async def recall(
        self,
        query: Annotated[str, Field(min_length=1, max_length=_MAX_QUERY_LENGTH)],
        ctx: ToolContext,
        limit: Limit = 5,
    ) -> ToolResult:
        """Search the memories of the user by meaning.

        Args:
            query: What to recall, as a question or in a few words.
            limit: The maximum number of memories.
        """
        keeper, user = _keeper(ctx), user_of(ctx.session)
        asked = utf8_text(query)
        with _convert_errors():
            found = await keeper.recall(user, asked, self._embedder, limit=limit)
        if not found:
            message = say("nothing_recalled")
            return ToolResult.no_results(message, speech=message)
        return ToolResult(
            result=[_describe(each) for each in found], speech=found[0].text[:_MAX_SPOKEN_LENGTH]
        )

    @tool(category="storage", effect="once", tags=["memory"], requires_approval=True)
    async def forget(self, memory_id: str, ctx: ToolContext) -> ToolResult:
        """Forget one memory of the user for good; the user is asked first.

        Args:
            memory_id: Its id, as recall gives it.
        """
        keeper, user = _keeper(ctx), user_of(ctx.session)
        with _convert_errors():
            gone = await keeper.delete(user, memory_id)
        if gone is None:
            message = say("unknown_memory", memory=memory_id)
            raise ToolError(message, status="not_found", reason_code="unknown_memory")
        return ToolResult(result=_describe(gone), speech=say("forgotten"))

    @tool(category="storage", effect="idempotent", tags=["memory"], timeout_seconds=600)
    async def index_folders(self, ctx: ToolContext) -> ToolResult:
        """Read the text files of the user's folders that are new or changed, for recall to find.

        What was read of files that are gone is forgotten.
        """
        keeper, user = _keeper(ctx), user_of(ctx.session)
        read = unchanged = left_out = forgotten = 0
        with _convert_errors():
            known = await keeper.sources(user, self._embedder)
            for folder in self._settings.folders:
                given = str(folder).rstrip("/")
                try:
                    listing = await asyncio.to_thread(_list_files, folder.descriptor)
                except OSError as error:
                    message = say("folder_unreadable", folder=given, reason=error.strerror or "-")
                    raise ToolError(message, reason_code="folder_unreadable") from error
                left_out += listing.left_out
                sources = {f"{given}/{path}": path for path in listing.files}
                for number, (source, path) in enumerate(sources.items(), start=1):
                    if known.get(source, 0.0) > listing.files[path]:
                        unchanged += 1
                        continue
                    ctx.progress(source, fraction=number / len(sources))
                    if await self._read(keeper, user, folder.descriptor, path, source):
                        read += 1
                    else:
                        left_out += 1
                gone = [each for each in known if each.startswith(f"{given}/")]
                for source in set(gone) - set(sources):
                    await keeper.forget_source(user, source)
                    forgotten += 1
        counts = {"read": read, "unchanged": unchanged, "left_out": left_out, "gone": forgotten}
        return ToolResult(result=counts, speech=say("folders_indexed", **counts))

    async def _read(
        self, keeper: MemoryTable, user: str | None, folder: int, path: str, source: str
    ) -> bool:
        """Replace the memories of a file with its new text; return whether it is text."""
        begun = time.time()
        try:
            pieces = await asyncio.to_thread(_read_pieces, folder, path)
        except OSError:  # removed, or replaced by a link
            pieces = None
        await keeper.forget_source(user, source)
        texts = [f"{source}: {utf8_text(piece)}" for piece in pieces or ()]
        for first in range(0, len(texts), _AT_ONCE):
            batch = texts[first : first + _AT_ONCE]
            await keeper.remember(user, batch, self._embedder, source=source, created=begun)
        return pieces is not None


def _make(settings: MemorySettings) -> Sequence[Tool[..., Any]]:
    memory = MemoryTools(settings)
    indexing = (memory.index_folders,) if settings.folders else ()
    return memory.remember, memory.recall, memory.forget, *indexing


def _keeper(ctx: ToolContext) -> MemoryTable:
    return require_table(ctx.session.get(UserData).memories, "memories_need_store")


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert errors of the store and of the embeddings into errors for the model."""
    try:
        yield
    except TooManyEntriesError as error:
        message = say("too_many_memories", most=MAX_MEMORIES)
        raise ToolError(message, status="limited", reason_code="too_many_memories") from error
    except (StoreError, ModelError) as error:
        message = say("memories_unavailable")
        raise ToolError(
            message, status="unavailable", reason_code="memories_unavailable"
        ) from error


def _describe(memory: Memory) -> dict[str, Any]:
    created = datetime.fromtimestamp(memory.created, UTC).isoformat(timespec="seconds")
    shown: dict[str, Any] = {"id": memory.id, "text": memory.text, "created": created}
    if memory.source:
        shown["source"] = memory.source
    if memory.similarity is not None:
        shown["similarity"] = round(memory.similarity, 3)
    return shown


TOOLBOX = Toolbox(
    summary="Memories of the user, found by their meaning: remember, recall and forget.",
    make=_make,
    settings=MemorySettings,
    access=frozenset({"store", "network"}),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _FolderListing:
    """The readable files of a folder."""

    # modification times in seconds since the epoch, by the path in the folder
    files: dict[str, float]
    left_out: int  # number of files that are too big, too many, or have a name that is not UTF-8


def _list_files(folder: int) -> _FolderListing:
    """List the regular files beneath an open folder, without hidden files and links."""
    files: dict[str, float] = {}
    left_out = 0
    # Unlike `fwalk`, this raises if the folder cannot be read.
    os.close(os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder))
    if os.fstat(folder).st_nlink == 0:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for place, folders, names, handle in os.fwalk(".", dir_fd=folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            try:
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            except OSError:  # removed meanwhile
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            path = str(Path(place) / name)
            is_too_much = status.st_size > _MAX_FILE_BYTES or len(files) >= _MAX_FILES
            if is_too_much or not is_utf8(path):
                left_out += 1
                continue
            files[path] = status.st_mtime
    return _FolderListing(files=files, left_out=left_out)


def _read_pieces(folder: int, path: str) -> list[str] | None:
    """Return the text of a file in pieces; `None` if the file is not UTF-8 text."""
    with os.fdopen(open_regular(folder, path), "rb") as file:
        data = file.read(_MAX_FILE_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else list(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """Yield paragraphs; join short ones, and cut long ones between words."""
    waiting = ""
    for paragraph in re.split(r"\n\s*\n", text):
        rest = paragraph.strip()
        if waiting and len(waiting) + len(rest) > _MAX_PIECE_LENGTH:
            yield waiting
            waiting = ""
        while len(rest) > _MAX_PIECE_LENGTH:
            end = rest.rfind(" ", 1, _MAX_PIECE_LENGTH)
            end = end if end > 0 else _MAX_PIECE_LENGTH
            yield rest[:end]
            rest = rest[end:].strip()
        if rest:
            waiting = f"{waiting}\n\n{rest}" if waiting else rest
    if waiting:
        yield waiting
