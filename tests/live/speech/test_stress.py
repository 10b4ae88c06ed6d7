"""Where words are, as far as a transcript tells."""

import math

import pytest

from leonidas_tools.live.speech.stress import SpokenWords


def found(*pieces, wanted=("really important",)):
    spoken = SpokenWords()
    for text, at in pieces:
        spoken.hear(text, at=at, wanted=wanted)
    return [(s.words, round(s.start, 2), round(s.end, 2)) for s in spoken.stresses]


def test_words_are_where_their_characters_would_be_spoken():
    # 8 characters stand before them, 16 are their own; 15 take a second, the margin is 0.1 s.
    assert found(("This is really important.", 2.0)) == [
        ("really important", round(2 + 8 / 15 - 0.1, 2), round(2 + 24 / 15 + 0.1, 2))
    ]


@pytest.mark.parametrize(
    "text",
    ["REALLY IMPORTANT", "really, important", "really\nimportant!", "«Really... important»"],
)
def test_case_and_what_stands_between_words_do_not_matter(text):
    assert [words for words, _, _ in found((text, 0.0))] == ["really important"]


@pytest.mark.parametrize("text", ["really unimportant", "importantly", "important really", ""])
def test_other_words_are_not_stressed(text):
    assert found((text, 0.0)) == []


def test_words_may_come_in_pieces():
    assert found(("This is rea", 1.0), ("lly imp", 1.0), ("ortant", 1.0)) == [
        ("really important", 1.43, 2.7)
    ]


def test_a_piece_begins_with_the_sound_that_comes_after_it_if_that_is_later():
    assert found(("One. ", 0.0), ("Really important", 5.0)) == [("really important", 4.9, 6.17)]


def test_a_piece_begins_where_the_one_before_it_ends_if_that_is_later():
    ahead = found(("One, two, three, four, five. ", 0.0), ("Really important", 0.5))
    assert ahead == [("really important", 1.83, 3.1)]


def test_words_that_had_been_spoken_before_they_were_asked_for_are_left_alone():
    spoken = SpokenWords()
    spoken.hear("It is now. ", at=0.0, wanted=())
    spoken.hear("And later", at=1.0, wanted=("now",))
    assert spoken.stresses == []


def test_words_spoken_twice_are_stressed_once():
    assert [
        words for words, _, _ in found(("Now. Now.", 0.0), (" Now.", 1.0), wanted=("now",))
    ] == ["now"]


def test_scripts_without_spaces_are_searched_too():
    assert [words for words, _, _ in found(("これはとても大切です", 0.0), wanted=("大切",))] == [
        "大切"
    ]


@pytest.mark.parametrize("words", ["...", "(", "a.b*[", " "])
def test_what_looks_like_a_pattern_is_none(words):
    assert found(("axb and so on", 0.0), wanted=(words,)) == []


def test_it_says_where_the_stress_changes_next():
    spoken = SpokenWords()
    spoken.hear("Now", at=1.0, wanted=("now",))
    (stress,) = spoken.stresses
    assert spoken.at(0.0, ("now",)) == (None, stress.start)
    assert spoken.at(stress.start, ("now",)) == (stress, stress.end)
    assert spoken.at(1.1, ()) == (stress, stress.end)  # it has begun
    assert spoken.at(stress.end, ()) == (None, math.inf)


def test_a_stress_that_is_not_wanted_any_more_does_not_begin():
    spoken = SpokenWords()
    spoken.hear("Now", at=1.0, wanted=("now",))
    assert spoken.at(1.1, ()) == (None, math.inf)


def test_at_the_end_of_a_turn_words_without_sound_get_none():
    spoken = SpokenWords()
    spoken.hear("Now and then", at=1.0, wanted=("now", "then"))
    spoken.end_turn(1.2)
    assert [(stress.words, stress.end) for stress in spoken.stresses] == [("now", 1.2)]
