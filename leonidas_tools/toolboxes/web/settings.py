"""The settings of the web."""

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
    """Check a region.

    Raises:
        ValueError: It is none.
    """
    region = region.lower()
    if not re.fullmatch(r"[a-z]{2}-[a-z]{2,4}", region):
        raise ValueError("is not a region: write the country and the language, such as 'pt-pt'")
    return region


def _host(host: str) -> str:
    """Return a host as it is compared.

    Raises:
        ValueError: It is more than a host.
    """
    host = host.strip("[]")
    if "/" in host or host.count(":") == 1:
        raise ValueError("is more than a host: leave out the scheme, the port and the path")
    return host.rstrip(".").lower()


class WebSettings(SettingsModel):
    """Settings of the web.

    Args:
        search: The service that searches: `ddgs` (several search engines, without a key), `searxng`
            (a server of your own, at `search_address`), or `brave` (with an `api_key`).
        search_address: The address of SearXNG, or another than that of the Brave Search API.
        api_key: The key of the Brave Search API; better `${NAME}`.
        region: The region of the results, such as `us-en` or `pt-pt`.
        results: How many results a search returns.
        timeout: How long a search, or a page with its redirects, may take.
        max_page_kilobytes: How much of a page is read.
        page_characters: How much text of a page is returned at a time.
        allow_private: Hosts that may be read although they are not public ones, such as
            `wiki.internal`.
        proxy: The address of a proxy, such as `${HTTPS_PROXY}`; without it none is used.
        browser: The program that opens a bookmark, with its arguments; by default none does.
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
