"""Search the web with one of several services."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict, ValidationError

from leonidas_tools.errors import ToolError
from leonidas_tools.files.certificates import trusted_certificates
from leonidas_tools.files.gradual_reads import read_gradually
from leonidas_tools.redaction.http_logs import unlogged_requests
from leonidas_tools.results.texts import say
from leonidas_tools.toolboxes.web.program import output_of, program

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from leonidas_tools.toolboxes.web.settings import WebSettings

_MAX_BYTES = 1 << 20
_DDGS = Path(__file__).with_name("ddgs_program.py")
_REFUSALS = frozenset({401, 403, 422})  # Brave returns 422 for an unknown key
_BRAVE = "https://api.search.brave.com"
_COUNTRIES = {"uk": "gb"}
_LANGUAGES = {"jp": "ja", "kr": "ko", "tzh": "zh", "wt": "all"}
"""Language codes of `ddgs` regions that differ from the usual codes."""
_BRAVE_COUNTRIES = re.compile(
    r"ar|au|at|be|br|ca|cl|dk|fi|fr|de|hk|in|id|it|jp|kr|my|mx|nl|nz|no|cn|pl|pt|ph|ru|sa|za"
    r"|es|se|ch|tw|tr|gb|us"
)
_BRAVE_KNOWN = re.compile(
    r"ar|eu|bn|bg|ca|zh-hans|zh-hant|hr|cs|da|nl|en|en-gb|et|fi|fr|gl|de|gu|he|hi|hu|is|it|jp"
    r"|kn|ko|lv|lt|ms|ml|mr|nb|pl|pt-br|pt-pt|pa|ro|ru|sr|sk|sl|es|sv|ta|te|th|tr|uk|vi"
)
_BRAVE_LANGUAGES = {
    "ja": "jp",
    "no": "nb",
    "pt": "pt-pt",
    "pt-br": "pt-br",
    "zh": "zh-hans",
    "zh-hk": "zh-hant",
    "zh-tw": "zh-hant",
}
_TAGS = re.compile(r"<[^<>]{0,200}>")

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One search result, unchanged from the service."""

    title: str
    url: str
    excerpt: str


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _SearxngHit(_Answer):
    url: str
    title: str = ""
    content: str | None = ""


class _Searxng(_Answer):
    results: list[_SearxngHit] = []


class _BraveHit(_Answer):
    url: str
    title: str = ""
    description: str = ""


class _BraveHits(_Answer):
    results: list[_BraveHit] = []


class _Brave(_Answer):
    web: _BraveHits = _BraveHits()


async def search(query: str, settings: WebSettings) -> Sequence[Hit]:
    """Return the results of the search service, best first; the caller sets a timeout.

    Raises:
        ToolError: The service does not respond, refuses, or sends an invalid response.
    """
    by = {"ddgs": _by_ddgs, "searxng": _by_searxng, "brave": _by_brave}[settings.search]
    return (await by(query, settings))[: settings.results]


async def _by_ddgs(query: str, settings: WebSettings) -> list[Hit]:
    asked = {
        "query": query,
        "region": settings.region,
        "results": settings.results,
        "proxy": settings.proxy,
        "seconds": max(1, int(settings.timeout / 2)),
    }
    async with program(_DDGS) as process:
        output = await output_of(process, json.dumps(asked).encode(), _MAX_BYTES)
    if output is None:
        raise _unreadable("ended")
    answer = json.loads(output)
    if answer.get("unreachable"):
        raise _unreachable()
    return [
        Hit(title=each.get("title", ""), url=each.get("href", ""), excerpt=each.get("body", ""))
        for each in answer.get("results", ())
    ]


async def _by_searxng(query: str, settings: WebSettings) -> list[Hit]:
    _, language = _place(settings.region)
    asked = {"q": query, "format": "json", "language": language}
    found = await _get(f"{settings.search_address}/search", asked, {}, _Searxng)
    return [Hit(title=e.title, url=e.url, excerpt=e.content or "") for e in found.results]


async def _by_brave(query: str, settings: WebSettings) -> list[Hit]:
    country, language = _place(settings.region)
    language = _BRAVE_LANGUAGES.get(f"{language}-{country}") or _BRAVE_LANGUAGES.get(
        language, language
    )
    asked = {"q": query, "count": str(settings.results)}
    if _BRAVE_COUNTRIES.fullmatch(country):  # Brave refuses other countries
        asked["country"] = country.upper()
    if _BRAVE_KNOWN.fullmatch(language):
        asked["search_lang"] = language
    address = f"{settings.search_address or _BRAVE}/res/v1/web/search"
    found = await _get(
        address, asked, {"x-subscription-token": settings.api_key or ""}, _Brave, settings.proxy
    )
    # Titles and descriptions of Brave are HTML, with the words of the query in <strong>.
    return [
        Hit(title=_plain(e.title), url=e.url, excerpt=_plain(e.description))
        for e in found.web.results
    ]


def _place(region: str) -> tuple[str, str]:
    """Return the country and the language of a region, as the usual codes."""
    country, _, language = region.partition("-")
    return _COUNTRIES.get(country, country), _LANGUAGES.get(language, language)


def _plain(text: str) -> str:
    return html.unescape(_TAGS.sub("", text))


async def _get(
    address: str,
    asked: Mapping[str, str],
    headers: Mapping[str, str],
    kind: type[M],
    proxy: str | None = None,
) -> M:
    """Request JSON of bounded size from a service, without following redirects."""
    headers = {**headers, "accept": "application/json", "accept-encoding": "identity"}
    body = bytearray()
    try:
        with unlogged_requests():
            async with (
                _client(await trusted_certificates(), proxy) as client,
                client.stream("GET", address, params=dict(asked), headers=headers) as answer,
            ):
                _check(answer)
                async for piece in answer.aiter_raw():
                    body += piece
                    if len(body) > _MAX_BYTES:
                        raise _unreadable("too_long")
        return kind.model_validate_json(bytes(body))
    except httpx2.HTTPError:
        raise _unreachable() from None
    except ValidationError:
        raise _unreadable("wrong_format") from None


def _client(certificates: ssl.SSLContext, proxy: str | None) -> httpx2.AsyncClient:
    client = httpx2.AsyncClient(verify=certificates, proxy=proxy, trust_env=False)
    read_gradually(client)
    return client


def _check(answer: httpx2.Response) -> None:
    status = answer.status_code
    if status in _REFUSALS:
        raise ToolError(say("web_search_key"), status="unavailable", reason_code=f"http_{status}")
    if status == 429 or status >= 500:  # noqa: PLR2004 - HTTP status codes
        raise _unreachable(f"http_{status}")
    if not answer.is_success:
        raise _unreadable(f"http_{status}")
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise _unreadable("compressed")


def _unreachable(reason_code: str = "unreachable") -> ToolError:
    return ToolError(
        say("web_search_unreachable"),
        status="unavailable",
        retryable=True,
        reason_code=reason_code,
    )


def _unreadable(reason_code: str) -> ToolError:
    return ToolError(say("web_search_unreadable"), status="unavailable", reason_code=reason_code)
