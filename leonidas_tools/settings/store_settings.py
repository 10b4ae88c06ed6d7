"""Settings of the store."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from leonidas_tools.settings.fields import Count, Duration, Name, Switch, refuse_empty
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
        enabled: Whether anything is stored.
        url: The database: a path, or an address such as `postgresql://user:password@host/name`; a
            file in the user's data directory, if omitted.
        durable: Whether the start of a call with the effect `once` is on disk before it runs.
        unwritable: What happens to that call if it cannot be stored within two seconds: `run` it
            unrecorded, or `refuse` it.
        keep_for: The maximum age of a stored call: seconds, or text such as `720h`. A question that
            can still be answered is kept longer.
        keep_calls: The maximum number of stored calls. The oldest are deleted first, but with
            `durable` no call with the effect `once` that is less than a day old.
        max_value_bytes: The maximum stored bytes of a call's arguments, and of its result.
        keep_results_for: How long a result that was too long for the model is kept.
        max_results_bytes: The maximum bytes of all such results; the oldest are deleted first.
        max_waiting: The maximum number of calls in the queue while the database cannot keep up.
        max_waiting_bytes: The maximum bytes of that queue.
    """

    enabled: Switch = False
    url: Annotated[
        Name | None,
        BeforeValidator(refuse_empty),
        PlainSerializer(_masked, when_used="json"),
        Field(repr=False),
    ] = None
    durable: Switch = False
    unwritable: Annotated[Literal["run", "refuse"], BeforeValidator(refuse_empty)] = "run"
    keep_for: Duration = 30 * _DAY_SECONDS
    keep_calls: Count = 100_000
    max_value_bytes: Count = 4096
    keep_results_for: Duration = _DAY_SECONDS
    max_results_bytes: Count = 268_435_456
    max_waiting: Count = 10_000
    max_waiting_bytes: Count = 16_777_216
