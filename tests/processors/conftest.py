"""The whole chain in both its forms."""

import pytest

from tests.processors.chains import made_by_hand, ready_made


@pytest.fixture(params=[ready_made, made_by_hand])
def chain_of(request):
    """Makes a chain with some tools besides the usual; `chain_of.monitor` is its monitor then."""

    def make(*tools):
        chain, make.monitor = request.param(*tools)
        return chain

    return make
