"""Settings of reminders."""

import os
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from leonidas_tools.settings.fields import Duration, Name, Switch
from leonidas_tools.settings.model import SettingsModel


def _check_zone(name: str) -> str:
    """Check the name of a time zone."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError("is not a time zone: give one such as 'Europe/Lisbon'") from None
    return name


def _webhook(address: str) -> str:
    """Check the URL of a webhook."""
    if not address.startswith(("http://", "https://")):
        raise ValueError("is not an HTTP URL: begin it with https:// or http://")
    return address


class RemindersSettings(SettingsModel):
    """Settings of the reminders.

    Args:
        timezone: The time zone of the user, such as `Europe/Lisbon`; by default that of the system.
        desktop: Whether to show a firing reminder on the desktop, if `notify-send` is installed.
        webhook: The URL to which a firing reminder is posted as JSON.
        webhook_timeout: The timeout of each of at most three attempts to post it.
    """

    timezone: Annotated[Name, AfterValidator(_check_zone)] | None = None
    desktop: Switch = True
    webhook: Annotated[Name, AfterValidator(_webhook)] | None = Field(default=None, repr=False)
    webhook_timeout: Duration = 10.0

    @property
    def zone(self) -> ZoneInfo:
        """Return the time zone of the user."""
        return ZoneInfo(self.timezone) if self.timezone else local_zone()


def local_zone(link: Path = Path("/etc/localtime")) -> ZoneInfo:
    """Return the time zone of the system; UTC if the system names none."""
    named = [os.environ.get("TZ", "").lstrip(":"), str(link.resolve()).partition("zoneinfo/")[2]]
    for name in filter(None, named):
        try:
            return ZoneInfo(name)
        except (ValueError, OSError, LookupError):
            continue
    return ZoneInfo("UTC")
