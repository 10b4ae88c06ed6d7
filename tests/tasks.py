"""The tasks of the running loop that a test looks at."""

import asyncio
from pathlib import Path
from typing import Any


def other_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks besides the current one and those in which google-genai closes a client.

    A client that is collected closes itself in a task of the loop that runs at that moment, which
    may be the loop of another test.
    """
    current = asyncio.current_task()
    return {
        task for task in asyncio.all_tasks() if task is not current and not _closes_a_client(task)
    }


def _closes_a_client(task):
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "genai" in Path(code.co_filename).parts
