"""Show a reminder on the desktop, and post it to a webhook."""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import shutil
from typing import TYPE_CHECKING, Any

from leonidas_tools.files.certificates import trusted_certificates
from leonidas_tools.redaction import described
from leonidas_tools.redaction.http_logs import unlogged_requests
from leonidas_tools.redaction.visible import visible, visible_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leonidas_tools.toolboxes.reminders.settings import RemindersSettings

logger = visible_logger(__name__)

_PROGRAM = "notify-send"
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
_DESKTOP_SECONDS = 10.0
_ATTEMPTS = 3
_DELAY_SECONDS = 1.0
_SERVER_ERROR = 500


async def deliver(reminder: Mapping[str, Any], settings: RemindersSettings) -> None:
    """Show and post a reminder; what fails is logged.

    Args:
        reminder: What is posted: its id, title, message, time and so on.
        settings: Where it goes.
    """
    ways = []
    if settings.desktop:
        ways.append(_show(str(reminder["title"]), str(reminder["message"])))
    if settings.webhook is not None:
        ways.append(_post(reminder, settings.webhook, settings.webhook_timeout))
    for result in await asyncio.gather(*ways, return_exceptions=True):
        if isinstance(result, Exception):
            logger.warning("A reminder is not delivered everywhere: %s", described(result))


async def _show(title: str, message: str) -> None:
    """Show a notification, where there is a desktop."""
    program = shutil.which(_PROGRAM)
    if program is None or not any(os.environ.get(name) for name in _DISPLAYS):
        return
    texts = [visible(title), html.escape(visible(message))]  # the body is read as markup
    process = await asyncio.create_subprocess_exec(
        program,
        "--app-name=Leonidas",
        "--",
        *(text.replace("\0", "") for text in texts),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_DESKTOP_SECONDS):
            code = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if code:
        logger.warning("%s has failed with %s: is a desktop running?", _PROGRAM, code)


async def _post(reminder: Mapping[str, Any], address: str, timeout_seconds: float) -> None:
    """Post a reminder, three times at most while the server cannot take it."""
    import httpx2

    async with httpx2.AsyncClient(
        verify=await trusted_certificates(), timeout=timeout_seconds, trust_env=False
    ) as client:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with unlogged_requests():
                    answer = await client.post(address, json=dict(reminder))
            except httpx2.TransportError as error:
                failure = type(error).__name__
            else:
                if answer.status_code < _SERVER_ERROR:
                    if not answer.is_success:
                        logger.warning(
                            "The webhook of reminders answers with %s", answer.status_code
                        )
                    return
                failure = f"status {answer.status_code}"
            if attempt < _ATTEMPTS:
                await asyncio.sleep(_DELAY_SECONDS * attempt)
    logger.warning("The webhook of reminders cannot be reached: %s", failure)
