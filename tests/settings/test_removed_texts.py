"""Texts that are gone do not keep a settings file from loading."""

import pytest

from leonidas_tools.settings.load import load
from leonidas_tools.settings.text_settings import REMOVED_TEXTS


@pytest.mark.parametrize("key", sorted(REMOVED_TEXTS))
def test_a_removed_text_has_no_effect(key, caplog):
    kept = {"failed": "{tool} did not work."}
    assert load({"texts": {key: "Anything", **kept}}) == load({"texts": kept})
    assert f"texts.{key} has no effect" in caplog.text
