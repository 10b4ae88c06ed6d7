"""What is typed, piped or heard faster than it is taken: bounded."""

import asyncio
import os
import sys
import threading
import types

from leonidas_tools.cli.typed import TypedLines
from leonidas_tools.cli.voice.devices import DeviceMicrophone


def piped(text: bytes) -> tuple[int, threading.Event]:
    """Return a pipe that a thread fills, and an event that is set once all is written."""
    reader, writer = os.pipe()
    written = threading.Event()

    def write() -> None:
        with os.fdopen(writer, "wb") as file:
            file.write(text)
        written.set()

    threading.Thread(target=write, daemon=True).start()
    return reader, written


async def test_all_lines_of_a_long_input_are_read_in_order_and_few_wait():
    reader, written = piped(b"".join(b"line %d\n" % n for n in range(50_000)))
    lines = TypedLines(reader)
    found, waiting = [], []
    async with asyncio.timeout(30):
        async for line in lines.lines():
            found.append(line)
            waiting.append(lines._lines.qsize())
            if len(found) == 1:
                while lines._lines.qsize() < 999:
                    await asyncio.sleep(0)
                assert not written.is_set()
    assert found == [f"line {n}" for n in range(50_000)]
    assert max(waiting) <= 1000
    os.close(reader)


async def test_a_line_without_an_end_is_read_in_pieces():
    reader, _ = piped(b"x" * 5_000_000 + b"\nend")
    async with asyncio.timeout(30):
        found = [line async for line in TypedLines(reader).lines()]
    assert "".join(found) == "x" * 5_000_000 + "end"
    assert max(map(len, found)) < 1_100_000
    os.close(reader)


async def test_of_what_a_microphone_hears_unread_the_last_ten_seconds_wait(monkeypatch):
    class Stream:
        def __init__(self, *, callback, **_):
            self.heard = callback

        def start(self):
            for number in range(2000):
                self.heard(number.to_bytes(640, "big"), 320, None, None)

        def close(self):
            pass

    library = types.SimpleNamespace(RawInputStream=Stream, PortAudioError=OSError)
    monkeypatch.setitem(sys.modules, "sounddevice", library)
    async with DeviceMicrophone() as microphone:
        await asyncio.sleep(0)
        frames = microphone.frames()
        heard = [int.from_bytes(await anext(frames), "big") for _ in range(500)]
    assert heard == list(range(1500, 2000))
