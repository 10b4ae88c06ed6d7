"""What judges the ears must itself be right."""

import pytest

from tests.voice.words import has_words, word_error_rate, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 24 degrees!", ["its", "24", "degrees"]),
        ("twenty-four, twenty four, 20 four", ["24", "24", "24"]),
        ("Twenty, eleven and zero", ["20", "11", "and", "0"]),
        ("two twenty", ["2", "20"]),
        ("", []),
    ],
)
def test_words_are_without_case_and_marks_and_numbers_are_digits(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("heard", "rate"),
    [
        ("it is CLOUDY, with four degrees", 0.0),
        ("it was cloudy with 4 degrees", 1 / 6),
        ("is cloudy with 4 degrees", 1 / 6),
        ("and it is cloudy with 4 or 5 degrees", 3 / 6),
        ("", 1.0),
    ],
)
def test_wrong_and_missing_and_added_words_are_errors(heard, rate):
    assert word_error_rate(heard, "It is cloudy with 4 degrees.") == pytest.approx(rate)


def test_words_are_there_if_others_are_between_them_but_not_if_one_is_missing():
    assert has_words("What is the wea weather", "What is the weather?")
    assert not has_words("What is weather the", "What is the weather?")
