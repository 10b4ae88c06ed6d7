"""Frames of sound by the short way are what google-genai itself writes and reads."""

import base64
import functools
import json

import pytest
from google.genai import Client, types
from google.genai.live import AsyncSession
from hypothesis import given
from hypothesis import strategies as st

from leonidas_tools.live.server_messages import parts_of
from leonidas_tools.live.sound_frames import send_sound, sound_parts, sound_text


class Wire:
    """A socket that keeps what is sent, and hands out one message."""

    def __init__(self, message=None):
        self.sent = []
        self._message = message

    async def send(self, text):
        self.sent.append(text)

    async def recv(self, *, decode=None):
        return self._message


@functools.cache
def client():
    return Client(api_key="simulated")._api_client


def session(wire):
    return AsyncSession(client(), wire)


KINDS = st.sampled_from(["audio/pcm;rate=16000", "audio/pcm", "audio/wav", 'audio/"é\\'])


@given(data=st.binary(max_size=700), kind=KINDS)
async def test_a_frame_is_written_as_google_genai_writes_it(data, kind):
    blob = types.Blob(data=data, mime_type=kind)
    ours, theirs = Wire(), Wire()
    await send_sound(session(ours), blob)
    await session(theirs).send_realtime_input(audio=blob)
    assert ours.sent == theirs.sent


@pytest.mark.parametrize(
    "blob",
    [
        types.Blob(data=b"x", mime_type="audio/pcm", display_name="named"),
        types.Blob(data=b"", mime_type="audio/pcm"),
        types.Blob(data=b"x", mime_type="image/png"),
        types.Blob(data=b"x"),
        types.Blob(mime_type="audio/pcm"),
    ],
)
def test_what_is_more_or_less_than_sound_is_left_to_google_genai(blob):
    assert sound_text(blob) is None


def sound(kind="audio/pcm;rate=24000", data=b"\x00\x01\x02", **more):
    return {"inlineData": {"mimeType": kind, "data": base64.b64encode(data).decode()}, **more}


def said(*parts, role="model", turn=(), content=(), message=()):
    model_turn = {"parts": list(parts), **({} if role is None else {"role": role}), **dict(turn)}
    return {"serverContent": {"modelTurn": model_turn, **dict(content)}, **dict(message)}


async def read_by_google(message):
    return list(parts_of(await session(Wire(json.dumps(message).encode()))._receive()))


@given(
    frames=st.lists(st.tuples(KINDS, st.binary(max_size=700)), min_size=1, max_size=3),
    role=st.sampled_from([None, "model", "user"]),
)
async def test_a_frame_is_read_as_google_genai_reads_it(frames, role):
    message = said(*(sound(kind, data) for kind, data in frames), role=role)
    for raw in (json.dumps(message), json.dumps(message).encode()):
        ours = sound_parts(raw)
        theirs = await read_by_google(message)
        assert [(p.part, p.role, p.mimetype, p.substream_name, p.metadata) for p in ours] == [
            (p.part, p.role, p.mimetype, p.substream_name, p.metadata) for p in theirs
        ]


@pytest.mark.parametrize(
    "message",
    [
        said(sound(), content={"turnComplete": True}),
        said(sound(), content={"interrupted": True}),
        said(sound(), content={"outputTranscription": {"text": "hello"}}),
        said(sound(), message={"usageMetadata": {"totalTokenCount": 1}}),
        said(sound(), message={"toolCall": {"functionCalls": []}}),
        said(sound(), {"text": "hello"}),
        said(sound(), {"functionCall": {"name": "pay", "args": {}}}),
        said(sound(thought=True)),
        said(sound(kind="image/png")),
        said({"inlineData": {"mimeType": "audio/pcm"}}),
        said({"inlineData": {"mimeType": "audio/pcm", "data": "AAA"}}),
        said({"inlineData": {"mimeType": "audio/pcm", "data": "A*AA"}}),
        said({"inlineData": {"mimeType": "audio/pcm", "data": "AA-_"}}),
        said({"inlineData": {"mimeType": "audio/pcm", "data": 7}}),
        said({"inlineData": {"mimeType": None, "data": "AAAA"}}),
        said(sound(), role=7),
        said(sound(), role=""),
        said(),
        said(sound(), turn={"new": 1}),
        {"serverContent": None},
        {"serverContent": {"modelTurn": [sound()]}},
        {"serverContent": {"modelTurn": {"parts": {"inlineData": 1}}}},
        [],
        "sound",
        None,
    ],
    ids=str,
)
def test_a_message_with_anything_else_in_it_is_left_to_google_genai(message):
    assert sound_parts(json.dumps(message)) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", "[" * 100_000, '{"serverContent":'])
def test_what_is_no_json_is_left_to_google_genai(raw):
    assert sound_parts(raw) is None
