"""The data directory of the user."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "LEONIDAS_DATA_DIR"
"""The environment variable that names another directory."""


def data_directory() -> Path:
    """Return the data directory: `LEONIDAS_DATA_DIR`, else the system's; it may not exist yet.

    Example:
        >>> os.environ["LEONIDAS_DATA_DIR"] = "/srv/leonidas"
        >>> data_directory().as_posix()
        '/srv/leonidas'
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_data_path

    return user_data_path("leonidas", appauthor=False)
