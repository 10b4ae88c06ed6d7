"""What waits, and what overtakes it."""

from genai_processors.content_api import ProcessorPart

from leonidas_tools.live.speech.line import Line, Mark, Sound
from tests.live.speech.sounds import audio

TEXT, END, LATER = ProcessorPart("text"), ProcessorPart("end"), ProcessorPart("later")


def sound():
    part = audio(b"1234")
    return Sound(part=part, hertz=24_000, data=memoryview(part.bytes))


def line_of(*items):
    line = Line()
    for item in items:
        line.put(item)
    return line


def taken(line, *, held=False):
    items = []
    while (item := line.next(held=held)) is not None:
        items.append(item)
    return items


def test_everything_comes_in_its_order():
    items = [TEXT, sound(), LATER, Mark(part=END), sound(), TEXT]
    assert taken(line_of(*items)) == items


def test_what_is_no_sound_overtakes_held_sound():
    items = [sound(), TEXT, Mark(part=END), LATER]
    line = line_of(*items)
    assert taken(line, held=True) == [TEXT, LATER]
    assert line.has_sound
    assert taken(line) == [items[0], items[2]]
    assert not line.has_sound


def test_what_is_put_back_comes_next():
    first, second = sound(), sound()
    line = line_of(first, second, TEXT)
    line.put_back(line.next(held=False))
    assert taken(line) == [first, second, TEXT]


def test_dropped_sound_leaves_the_ends_of_turns_in_their_places():
    line = line_of(TEXT, sound(), Mark(part=END), sound(), LATER, Mark(part=END))
    line.drop_sound()
    assert not line.has_sound
    assert taken(line, held=True) == [TEXT, END, LATER, END]
