"""Settings of the store."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from leonidas_tools.settings.fields import Count, Duration, Name, Switch, unset
from leonidas_tools.settings.model import SettingsModel

_DAY_SECONDS = 86_400.0


def _masked(url: str | None) -> str | None:
    """Return the address without a password."""
    from leonidas_tools.redaction import redact_text

    return None if url is None else redact_text(url)


class StoreSettings(SettingsModel):
    """The records that are stored, and where.

    As JSON, the password in `url` is masked.

    Args:
        enabled: Whether anything is kept.
        url: The database: a path, or an address such as `postgresql://user:password@host/name`;
            a file in the user's data directory when left out.
        durable: Whether a call that happens only once is on disk before it runs.
        unwritable: What becomes of such a call where it cannot be written down within two seconds:
            `run` it unrecorded, or `refuse` it.
        keep_for: How old a call may become: seconds, or text such as `720h`. A question that can
            still be answered is kept for longer.
        keep_calls: How many calls are kept; the oldest go first, but with `durable` none of less
            than a day that happens only once.
        max_value_bytes: How much of a call's arguments, and of its result, is kept.
        keep_results_for: How long a result is kept that was too long for the model.
        max_results_bytes: How much such results may hold together; the oldest go first.
        max_waiting: How many calls may wait to be written while the database cannot keep up.
        max_waiting_bytes: How much they may hold together.
    """

    enabled: Switch = False
    url: Annotated[
        Name | None,
        BeforeValidator(unset),
        PlainSerializer(_masked, when_used="json"),
        Field(repr=False),
    ] = None
    durable: Switch = False
    unwritable: Annotated[Literal["run", "refuse"], BeforeValidator(unset)] = "run"
    keep_for: Duration = 30 * _DAY_SECONDS
    keep_calls: Count = 100_000
    max_value_bytes: Count = 4096
    keep_results_for: Duration = _DAY_SECONDS
    max_results_bytes: Count = 268_435_456
    max_waiting: Count = 10_000
    max_waiting_bytes: Count = 16_777_216
