"""Fixtures over third-party data."""

import sys
from collections.abc import Iterator

import pytest

from tests.real import bfcl as dataset


@pytest.fixture(scope="session")
def bfcl() -> Iterator[dataset.Bfcl]:
    """Serve the Berkeley Function Calling Leaderboard."""
    folder = dataset.folder()
    sys.path.append(str(folder))
    yield dataset.Bfcl(folder)
    sys.path.remove(str(folder))
