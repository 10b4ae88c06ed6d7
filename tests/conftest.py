"""What holds for all tests: nothing of the user who runs them is read or written."""

import itertools
import os
import shutil
import tempfile
from pathlib import Path

import pytest

VARIABLE = "LEONIDAS_DATA_DIR"
_NUMBERS = itertools.count()


def pytest_configure(config):
    """What fixtures of modules and sessions start gets a directory too."""
    directory = tempfile.mkdtemp(prefix="leonidas-data-")
    os.environ[VARIABLE] = directory
    config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


@pytest.fixture(autouse=True)
def user_data(monkeypatch):
    """The user's data directory: each test begins without it."""
    directory = Path(os.environ[VARIABLE]) / str(next(_NUMBERS))
    monkeypatch.setenv(VARIABLE, str(directory))
    return directory
