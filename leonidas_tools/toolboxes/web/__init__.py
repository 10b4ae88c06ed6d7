"""The web: search it, read its pages, and keep bookmarks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from leonidas_tools.approvals.session_policy import user_of
from leonidas_tools.calls.call import ToolResult
from leonidas_tools.calls.context import ToolContext
from leonidas_tools.errors import ToolError
from leonidas_tools.redaction.visible import visible, without_unseen
from leonidas_tools.results.jsonable import utf8_text
from leonidas_tools.results.texts import say
from leonidas_tools.session.user_data import Note, UserData, require_table
from leonidas_tools.settings.explain import closest
from leonidas_tools.toolboxes.web.fetch import Fetched, Fetcher, check_address
from leonidas_tools.toolboxes.web.program import output_of, program
from leonidas_tools.toolboxes.web.search import search
from leonidas_tools.toolboxes.web.settings import WebSettings
from leonidas_tools.tools.tool import Tool
from leonidas_tools.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from leonidas_tools.store.notes import NoteTable

__all__ = ["TOOLBOX", "WebSettings"]

_EXTRACT = Path(__file__).with_name("extract.py")
_MAX_SEARCHES = 8
_MAX_EAGER = 4
"""Most readers that start before their page is there; slow servers can occupy all of them."""
_MAX_PATIENT = 2
"""Most readers that start only for a page that is there."""
_BYTES_PER_BYTE = 24
"""Bytes of JSON that a program may write for each byte of a page: its title and its text."""
_PAGES = frozenset({"text/html", "application/xhtml+xml", ""})
_MAX_LINE_LENGTH = 300
_MAX_CHARSET_LENGTH = 40
_MAX_KIND_LENGTH = 60
_HEAD_BYTES = 1_024
_SIGNATURES = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG", "image/png"),
    (b"GIF8", "image/gif"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FAMILIES = {"image": "an image", "audio": "an audio file", "video": "a video"}
_MAX_BOOKMARKS = 1000
_MAX_SUGGESTED = 5
_MAX_URL_LENGTH = 4096
_BOOKMARK = "bookmark"

Query = Annotated[str, Field(min_length=1, max_length=400)]
Url = Annotated[str, Field(min_length=1, max_length=_MAX_URL_LENGTH)]
BookmarkName = Annotated[str, Field(min_length=1, max_length=80)]


class WebTools:
    """The web tools."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._fetcher = Fetcher(settings)
        self._searches = asyncio.Semaphore(_MAX_SEARCHES)
        self._eager = asyncio.Semaphore(_MAX_EAGER)
        self._patient = asyncio.Semaphore(_MAX_PATIENT)

    async def web_search(self, query: Query) -> ToolResult:
        """Search the web.

        Args:
            query: A few words, as in a search box.
        """
        try:
            async with asyncio.timeout(self._settings.timeout), self._searches:
                found = await search(query, self._settings)
        except TimeoutError:
            raise _timeout_error() from None
        hits = [
            {"title": _line(each.title), "url": each.url, "excerpt": _line(each.excerpt)}
            for each in found
            if _is_readable(each.url)
        ]
        if not hits:
            message = say("web_nothing_found", query=query)
            return ToolResult.no_results(message, speech=message)
        key = "web_found_one" if len(hits) == 1 else "web_found"
        speech = say(key, count=len(hits), title=hits[0]["title"])
        return ToolResult(result={"results": hits}, speech=speech)

    async def read_page(
        self, url: Url, start: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    ) -> ToolResult:
        """Read the text of a web page.

        Args:
            url: Its address, as web_search gives it.
            start: Where to begin, for a page that is longer than one answer: `next` of the last.
        """
        most = self._settings.page_characters
        check_address(url)  # before a program is started for it
        try:
            async with asyncio.timeout(self._settings.timeout):
                page, found = await self._read(url, start + most + 1)
        except TimeoutError:
            raise _timeout_error() from None
        text = without_unseen(utf8_text(found["text"]))
        if not text.strip():
            message = say("web_no_text")
            return ToolResult.no_results(message, speech=message)
        if start >= len(text):
            message = say("web_page_end", start=start)
            raise ToolError(message, status="invalid_argument", reason_code="past_the_end")
        title = _line(found["title"]) or check_address(page.url).host
        result: dict[str, Any] = {"url": page.url, "title": title}
        if found["date"]:
            result["date"] = _line(found["date"])
        result["text"] = text[start : start + most]
        if len(text) > start + most:
            result["next"] = start + most
        elif page.is_cut:
            result["more"] = say("web_page_cut", kilobytes=self._settings.max_page_kilobytes)
        return ToolResult(result=result, speech=say("web_page_read", title=title))

    async def _read(self, url: str, characters: int) -> tuple[Fetched, dict[str, str]]:
        """Return a page, and its title, text and date."""
        if self._eager.locked():
            page = await self._fetcher.fetch(url)
            async with self._patient, program(_EXTRACT) as extractor:
                return page, await _extract(extractor, page, characters)
        async with self._eager, program(_EXTRACT) as extractor:  # loads while the page is fetched
            page = await self._fetcher.fetch(url)
            return page, await _extract(extractor, page, characters)

    async def bookmark(self, name: BookmarkName, url: Url, ctx: ToolContext) -> ToolResult:
        """Bookmark a web page under a name; a bookmark of that name is replaced.

        Args:
            name: A few words to call it by.
            url: Its address.
        """
        name, address = _line(name), str(check_address(url))
        keeper, user = _keeper(ctx), user_of(ctx.session)
        known = next((each for each in await _bookmarks(ctx) if _is_same(each.title, name)), None)
        if known is None:
            made = await keeper.create(user, title=name, text=address, tags=[_BOOKMARK])
            ctx.undo(keeper.delete, user, made.id)
        else:
            ctx.undo(keeper.restore, user, known)
            await keeper.update(user, known.id, title=name, text=address)
        speech = say("web_bookmarked", name=name)
        return ToolResult(result={"name": name, "url": address}, speech=speech)

    async def open_bookmark(self, name: BookmarkName, ctx: ToolContext) -> ToolResult:
        """Open a bookmarked page, or return its address to read.

        Args:
            name: What it is called; a similar name is enough.
        """
        kept = {each.title: each for each in await _bookmarks(ctx)}
        wanted = _line(name)
        title = next((each for each in kept if _is_same(each, wanted)), None) or closest(
            wanted, list(kept)
        )
        if title is None:
            raise ToolError(
                say("web_no_bookmark", name=wanted),
                status="not_found",
                reason_code="unknown_bookmark",
                valid_options=_find_similar(wanted, list(kept)),
            )
        address = str(check_address(kept[title].text))
        if self._settings.browser:
            await _open([*self._settings.browser, address])
        speech = say("web_opened" if self._settings.browser else "web_bookmark_is", name=title)
        result = {"name": title, "url": address, "opened": bool(self._settings.browser)}
        return ToolResult(result=result, speech=speech)


async def _extract(
    process: asyncio.subprocess.Process, page: Fetched, characters: int
) -> dict[str, str]:
    """Return the title, text and date of a page."""
    is_html = _kind_of(page) in _PAGES
    charset = (page.charset or "")[:_MAX_CHARSET_LENGTH]
    asked = json.dumps({"charset": charset, "characters": characters, "is_html": is_html})
    given = asked.encode() + b"\n" + page.body
    output = await output_of(process, given, _BYTES_PER_BYTE * len(given))
    if output is None:
        raise ToolError(say("web_unreadable_page"), status="failed", reason_code="unreadable_page")
    data: dict[str, str] = json.loads(output)
    return data


def _is_readable(url: str) -> bool:
    """Return whether a search result is a web URL of allowed length, with visible characters."""
    try:
        return (
            len(url) <= _MAX_URL_LENGTH and without_unseen(url) == url and bool(check_address(url))
        )
    except ToolError:
        return False


def _kind_of(page: Fetched) -> str:
    """Return the media type of a text page."""
    head = page.body[:_HEAD_BYTES]
    kind = next((kind for mark, kind in _SIGNATURES if head.startswith(mark)), page.kind)
    is_binary = b"\0" in head and not head.startswith(_WIDE_MARKS)
    is_text = kind in _PAGES or kind.startswith("text/") or kind.endswith(("json", "xml"))
    if is_text and not is_binary:
        return kind
    what = "a PDF" if kind == "application/pdf" else _FAMILIES.get(kind.partition("/")[0], "a file")
    shown = visible(kind)[:_MAX_KIND_LENGTH] or "application/octet-stream"
    message = say("web_no_text_kind", what=what, kind=shown)
    raise ToolError(message, status="failed", reason_code="no_text")


def _find_similar(name: str, names: Sequence[str]) -> list[str]:
    """Return the names most similar to a name, the most similar first."""
    from rapidfuzz import process, utils

    found = process.extract(name, names, limit=_MAX_SUGGESTED, processor=utils.default_process)
    return [each for each, _, _ in found]


async def _open(argv: list[str]) -> None:
    """Start the browser without waiting for it."""
    try:
        await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        raise ToolError(
            say("web_no_browser", program=argv[0]),
            status="unavailable",
            reason_code="no_browser",
        ) from None


def _keeper(ctx: ToolContext) -> NoteTable:
    return require_table(ctx.session.get(UserData).notes, "notes_need_store")


async def _bookmarks(ctx: ToolContext) -> Sequence[Note]:
    found = await _keeper(ctx).find(user_of(ctx.session), tag=_BOOKMARK, limit=_MAX_BOOKMARKS)
    return found.notes


def _is_same(title: str, name: str) -> bool:
    return title.casefold() == name.casefold()


def _line(text: str) -> str:
    """Return a text on one line, shortened, without invisible characters."""
    return without_unseen(" ".join(utf8_text(text).split()))[:_MAX_LINE_LENGTH]


def _timeout_error() -> ToolError:
    return ToolError(say("web_too_slow"), status="timeout", retryable=True, reason_code="too_slow")


def _make(settings: WebSettings) -> Sequence[Tool[..., Any]]:
    web = WebTools(settings)
    return (
        Tool(
            web.web_search,
            category="query",
            effect="read",
            tags=["web"],
            untrusted=True,
            lane="off",
        ),
        Tool(
            web.read_page, category="query", effect="read", tags=["web"], untrusted=True, lane="off"
        ),
        Tool(web.bookmark, category="storage", effect="idempotent", tags=["web"]),
        Tool(
            web.open_bookmark,
            category="storage",
            effect="once" if settings.browser else "read",
            tags=["web"],
        ),
    )


TOOLBOX = Toolbox(
    summary="The web: search it, read its pages, keep and open bookmarks.",
    make=_make,
    settings=WebSettings,
    access=frozenset({"network", "programs", "store"}),
)
