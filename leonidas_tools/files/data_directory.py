"""The data directory of the user."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "LEONIDAS_DATA_DIR"
"""The environment variable that overrides the data directory."""


def data_directory() -> Path:
    """Return `LEONIDAS_DATA_DIR`, else the data directory of the platform; it may not exist yet.

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
