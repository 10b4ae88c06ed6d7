"""The models, loaded once."""

import os

import pytest

from tests.voice.models import Ears, Voice, missing_packages


@pytest.fixture(scope="session")
def speech_models():
    """Whether there are any: only CI insists on them, since they are large."""
    missing = missing_packages()
    if missing:
        reason = f"{', '.join(missing)} missing: `make voice` installs the models and runs this"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(scope="session")
def voice(speech_models):
    return Voice()


@pytest.fixture(scope="session")
def ears(speech_models):
    return Ears()
