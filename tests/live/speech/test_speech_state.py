"""The settings of the speech, apart from any sound."""

import math

import pytest

from leonidas_tools.session.speech import SpeechSettings, SpeechState


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": 0.49}, {"rate": 2.01}, {"rate": math.nan}, {"volume": -0.1}, {"volume": 2.1},
        {"volume": math.nan}, {"paused_until": math.inf},
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_refused_and_changes_nothing(changes):
    speech = SpeechState()
    before = speech.set(rate=1.5)
    with pytest.raises(ValueError, match=repr(next(iter(changes.values())))):
        speech.set(**changes)
    assert speech.current is before
    assert speech.roll_back().rate == 1.0


def test_a_pause_without_an_end_is_refused():
    with pytest.raises(ValueError, match="no end"):
        SpeechState().pause(math.inf)


@pytest.mark.parametrize("settings", [{"rate": 0.5, "volume": 0.0}, {"rate": 2, "volume": 2}])
def test_the_bounds_themselves_are_taken(settings):
    assert SpeechState().set(**settings) == SpeechSettings(**settings)


def test_words_that_have_been_stressed_are_not_asked_for_again():
    speech, heard = SpeechState(), []
    speech.set(emphasis=("one", "two"))
    speech.set(rate=1.5)
    speech.on_change(heard.append)
    assert speech.emphasized("one") == SpeechSettings(rate=1.5, emphasis=("two",))
    assert heard == [speech.current]
    assert speech.roll_back() == SpeechSettings(emphasis=("two",))
    assert speech.roll_back() == SpeechSettings()
