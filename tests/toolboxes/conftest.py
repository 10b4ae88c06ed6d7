"""What the tests of all toolboxes share."""

import pytest

from tests.databases import place


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def where(request, file):
    """A place for a store of each kind; the tests of the store hold both to the same."""
    return place(request.param, request, file)
