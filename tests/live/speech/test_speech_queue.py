"""What waits, and what overtakes it."""

from genai_processors.content_api import ProcessorPart

from leonidas_tools.live.speech.output import Mark, Sound, SpeechQueue
from tests.live.speech.sounds import audio

TEXT, END, LATER = ProcessorPart("text"), ProcessorPart("end"), ProcessorPart("later")


def sound():
    part = audio(b"1234")
    return Sound(part=part, hertz=24_000, data=memoryview(part.bytes))


def queue_of(*items):
    queue = SpeechQueue()
    for item in items:
        queue.put(item)
    return queue


def taken(queue, *, held=False):
    items = []
    while (item := queue.next(held=held)) is not None:
        items.append(item)
    return items


def test_everything_comes_in_its_order():
    items = [TEXT, sound(), LATER, Mark(part=END), sound(), TEXT]
    assert taken(queue_of(*items)) == items


def test_what_is_no_sound_overtakes_held_sound():
    items = [sound(), TEXT, Mark(part=END), LATER]
    queue = queue_of(*items)
    assert taken(queue, held=True) == [TEXT, LATER]
    assert queue.has_sound
    assert taken(queue) == [items[0], items[2]]
    assert not queue.has_sound


def test_what_is_put_back_comes_next():
    first, second = sound(), sound()
    queue = queue_of(first, second, TEXT)
    queue.put_back(queue.next(held=False))
    assert taken(queue) == [first, second, TEXT]


def test_dropped_sound_leaves_the_ends_of_turns_in_their_places():
    queue = queue_of(TEXT, sound(), Mark(part=END), sound(), LATER, Mark(part=END))
    queue.drop_sound()
    assert not queue.has_sound
    assert taken(queue, held=True) == [TEXT, END, LATER, END]
