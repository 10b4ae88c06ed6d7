"""Settings of the web tools."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from leonidas_tools.settings.fields import Count, Duration, Name
from leonidas_tools.settings.model import SettingsModel


def _address(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise ValueError("is not an HTTP URL: begin it with https:// or http://")
    return address.rstrip("/")


def _region(region: str) -> str:
    """Check a region."""
    region = region.lower()
    if not re.fullmatch(r"[a-z]{2}-[a-z]{2,4}", region):
        raise ValueError("is not a region: write the country and the language, such as 'pt-pt'")
    return region


def _host(host: str) -> str:
    """Return a host in normalized form."""
    host = host.strip("[]")
    if "/" in host or host.count(":") == 1:
        raise ValueError("is more than a host: leave out the scheme, the port and the path")
    return host.rstrip(".").lower()


class WebSettings(SettingsModel):
    """Settings of the web tools.

    Args:
        search: The search service: `ddgs` (several search engines, without an API key), `searxng`
            (a server of your own, at `search_address`), or `brave` (with an `api_key`).
        search_address: The base URL of SearXNG; for Brave, an alternative to its public API.
        api_key: The API key of the Brave Search API; better `${NAME}`.
        region: The region of the results, such as `us-en` or `pt-pt`.
        results: The maximum number of results of a search.
        timeout: The timeout of a search, or of a page with its redirects.
        max_page_kilobytes: The maximum size of a page; the rest is not read.
        page_characters: The maximum number of characters of a page in one result.
        allow_private: Hosts that may be read even if they are not public, such as `wiki.internal`.
        proxy: The URL of a proxy, such as `${HTTPS_PROXY}`; by default no proxy is used.
        browser: The program that opens bookmarks, with its arguments; by default none.
    """

    search: Literal["ddgs", "searxng", "brave"] = "ddgs"
    search_address: Annotated[Name, AfterValidator(_address)] | None = None
    api_key: Name | None = Field(default=None, repr=False)
    region: Annotated[Name, AfterValidator(_region)] = "us-en"
    results: Annotated[Count, Field(le=20)] = 5
    timeout: Duration = 20.0
    max_page_kilobytes: Count = 2048
    page_characters: Count = 8000
    allow_private: tuple[Annotated[Name, AfterValidator(_host)], ...] = ()
    proxy: Annotated[Name, AfterValidator(_address)] | None = Field(default=None, repr=False)
    browser: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _check_search(self) -> Self:
        if self.search == "searxng" and self.search_address is None:
            raise ValueError("search: searxng needs search_address, the address of the server")
        if self.search == "brave" and self.api_key is None:
            raise ValueError("search: brave needs api_key, such as ${BRAVE_API_KEY}")
        return self
