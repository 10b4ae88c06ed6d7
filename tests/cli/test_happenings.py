from genai_processors.content_api import ProcessorPart

from leonidas_tools.cli.happenings import Listener


def said(*words):
    listener = Listener()
    parts = [ProcessorPart(text, substream_name=f"{who}_transcription") for who, text in words]
    heard = [each for part in parts for each in listener.hear(part)] + [*listener.pause()]
    return [(each.data["who"], each.data["text"]) for each in heard]


def test_words_become_sentences():
    assert said(("output", "It"), ("output", " is"), ("output", " nine."), ("output", "")) == [
        ("agent", "It is nine.")
    ]


def test_a_sentence_ends_where_a_new_one_begins():
    assert said(("output", "Well."), ("output", " It is"), ("output", " 9"), ("output", ".5.")) == [
        ("agent", "Well."),
        ("agent", "It is 9.5."),
    ]


def test_the_other_speaker_ends_a_sentence():
    assert said(("output", "I am look"), ("input", "No, leave"), ("input", " it.")) == [
        ("agent", "I am look"),
        ("user", "No, leave it."),
    ]


def test_an_interruption_ends_a_sentence():
    listener = Listener()
    parts = [
        ProcessorPart("I am", substream_name="output_transcription"),
        ProcessorPart("", metadata={"interrupted": True}),
    ]
    heard = [each for part in parts for each in listener.hear(part)]
    assert [each.kind for each in heard] == ["said", "interrupted"]
