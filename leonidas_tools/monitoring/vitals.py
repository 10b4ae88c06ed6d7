"""Vital signs of the system, which other parts report to the monitor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _none() -> None:
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """Sources of vital signs; each is called when a report is made.

    Args:
        abandoned_threads: How many threads run on whose call has ended.
        settings_error: What is wrong with the settings file, if anything.
        store_error: What is wrong with the store, if anything.
        loop_lag_seconds: How late the event loop runs what is due, where that is measured.
        breakers: The state of every breaker that watches a tool, by its name.
        cache: How much the result cache holds, and how often it has helped.
    """

    abandoned_threads: Callable[[], int] = int
    settings_error: Callable[[], str | None] = _none
    store_error: Callable[[], str | None] = _none
    loop_lag_seconds: Callable[[], float | None] = _none
    breakers: Callable[[], Mapping[str, str]] = dict
    cache: Callable[[], Mapping[str, Any]] = dict
