"""Limits and prices of tokens in the settings."""

import pytest

from leonidas_tools.settings.load import load


@pytest.mark.parametrize("limit", ["session", "user_day"])
@pytest.mark.parametrize("kind", ["tokens", "cost"])
@pytest.mark.parametrize("off", ["off", 0])
def test_a_limit_can_be_switched_off(limit, kind, off):
    assert load({"usage": {limit: {kind: off}}}) == load({"usage": {limit: {}}})
