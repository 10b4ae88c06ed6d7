"""Voice of the program, with WAV files and with PortAudio as far as it is there."""

import array
import json
import os
import pty
import subprocess
import wave

import pytest
import yaml

from leonidas_tools.cli.voice.interface import SPEAKER_FRAME_BYTES
from leonidas_tools.cli.voice.jitter import JitterBuffer
from leonidas_tools.simulator import LiveSimulator, Say, Scenario, TurnComplete, WaitForInput

pytestmark = pytest.mark.slow

FRAME = b"\x01\x02" * (SPEAKER_FRAME_BYTES // 2)
SILENCE = bytes(SPEAKER_FRAME_BYTES)


def write_wav(path, frames, *, channels=1, hertz=16_000):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(hertz)
        file.writeframes(frames)
    return path


def heard_seconds(path):
    """How much of what a speaker's file holds is not silence."""
    with wave.open(str(path), "rb") as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        samples = array.array("h", file.readframes(file.getnframes()))
    frames = [samples[start : start + 480] for start in range(0, len(samples), 480)]
    return sum(any(frame) for frame in frames) * 0.02


@pytest.fixture
def recording(tmp_path):
    """Half a second of noise."""
    sound = array.array("h", ((i * 7919) % 4001 - 2000 for i in range(8_000)))
    return write_wav(tmp_path / "question.wav", sound.tobytes())


@pytest.fixture
def scenario(tmp_path):
    def write(*steps):
        file = tmp_path / "scenario.yaml"
        file.write_text(yaml.safe_dump({"name": "Voice", "steps": list(steps)}))
        return file

    return write


def test_the_simulator_hears_a_recording_and_its_voice_is_written_to_a_file(
    leonidas, settings, scenario, recording, tmp_path
):
    file = scenario(
        {"wait_for_input": {"kind": "audio", "count": 25}},
        {"say": {"text": "I hear you.", "audio_seconds": 0.6}},
        "generation_complete",
        "turn_complete",
    )
    answer = tmp_path / "answer.wav"
    finished = leonidas(
        *("run", file, "--config", settings), "--microphone", recording, "--speaker", answer
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "agent       I hear you.\n" in finished.stdout
    assert heard_seconds(answer) == pytest.approx(0.6)


def test_an_interruption_drops_what_is_not_played_yet(leonidas, settings, scenario, tmp_path):
    file = scenario(
        {"say": {"text": "This is a long story.", "audio_seconds": 20}},
        {"pause": 0.3},
        "interrupt",
        "turn_complete",
    )
    answer = tmp_path / "answer.wav"
    finished = leonidas("run", file, "--config", settings, "--speaker", answer)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert 0 < heard_seconds(answer) < 10


def test_a_scenario_that_waits_for_sound_is_given_silence(leonidas, settings, scenario):
    file = scenario({"wait_for_input": "audio"}, {"say": "Is anybody there?"}, "turn_complete")
    finished = leonidas("run", file, "--config", settings)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_a_real_session_hears_a_recording_and_ends_after_the_answer(
    leonidas, settings, recording, tmp_path
):
    steps = [WaitForInput("activity"), Say("Yes."), TurnComplete()]
    answer = tmp_path / "answer.wav"
    with LiveSimulator(Scenario(steps)) as simulator:
        finished = leonidas(
            *("run", "--json", "--config", settings),
            *("--microphone", recording, "--speaker", answer),
            **simulator.environment(),
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        frames = simulator.audio_received
    assert {(len(frame.data), frame.mime_type) for frame in frames} == {
        (640, "audio/pcm;rate=16000")
    }
    with wave.open(str(recording), "rb") as file:
        assert b"".join(frame.data for frame in frames) == file.readframes(file.getnframes())
    told = [json.loads(line) for line in finished.stdout.splitlines()]
    assert told[0]["text"].endswith("; the recording is played")
    assert {"who": "agent", "text": "Yes."}.items() <= told[2].items()
    assert heard_seconds(answer) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--microphone", "none.wav"],
            "none.wav: there is no such file: correct the path, or create it",
        ),
        (
            ["--microphone", "stereo.wav"],
            (
                "stereo.wav: has 16-bit with 2 channels at 44100 Hz, but 16-bit mono at 16000 Hz "
                "is needed: convert it"
            ),
        ),
        (
            ["--microphone", "tools.yaml"],
            (
                "tools.yaml: is not a WAV file of PCM (file does not start with RIFF id): "
                "name another file"
            ),
        ),
        (
            ["--speaker", "none/answer.wav"],
            (
                "none/answer.wav: cannot be written (No such file or directory): "
                "name a file in a folder you can write to"
            ),
        ),
    ],
)
def test_a_file_that_does_not_fit_is_reported_in_one_line(
    leonidas, settings, tmp_path, options, message
):
    write_wav(tmp_path / "stereo.wav", bytes(400), channels=2, hertz=44_100)
    finished = leonidas("run", "one_call", "--config", settings, *options)
    assert (finished.returncode, finished.stderr) == (2, f"leonidas: {message}\n")


# A module of this name in PYTHONPATH goes before an installed one.
PORTAUDIO = {
    "not installed": (
        "raise ImportError",
        "sounddevice is not installed: pip install 'leonidas-tools[audio]'",
    ),
    "without its library": (
        "raise OSError('PortAudio library not found')",
        "PortAudio library not found: install it (on Debian: apt-get install libportaudio2)",
    ),
    "without a device": (
        (
            "class PortAudioError(Exception): pass\n"
            "def query_devices(*, kind): raise PortAudioError('Error querying device -1')"
        ),
        (
            "there is no microphone (Error querying device -1): connect one, or name a WAV file "
            "with --microphone"
        ),
    ),
}


@pytest.mark.parametrize(("module", "message"), PORTAUDIO.values(), ids=PORTAUDIO.keys())
def test_voice_that_cannot_be_had_is_reported_in_one_line(
    started, environment, settings, tmp_path, module, message
):
    (tmp_path / "sounddevice.py").write_text(module)
    environment["PYTHONPATH"] = str(tmp_path)
    finished = started("run", "one_call", "--voice", "--config", settings)
    assert (finished.returncode, finished.stderr) == (2, f"leonidas: {message}\n")


def test_at_a_terminal_without_devices_text_it_is_and_why(command, environment, settings, tmp_path):
    (tmp_path / "sounddevice.py").write_text("raise ImportError")
    ours, theirs = pty.openpty()
    with LiveSimulator(Scenario([WaitForInput("text"), TurnComplete()])) as simulator:
        options = command({**environment, **simulator.environment()})
        options["args"] += ["run", "--json", "--config", str(settings)]
        with subprocess.Popen(**options, stdin=theirs, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            os.write(ours, b"Hello\n\x04")
            rest = [json.loads(line) for line in process.stdout]
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0, rest
    assert first["text"].endswith(
        "; type what you say, Ctrl-D to end; no voice, since sounddevice is not installed: "
        "pip install 'leonidas-tools[audio]'"
    )
    assert rest[-1]["ok"]


def test_what_comes_late_leaves_no_gap():
    buffer = JitterBuffer(prefill_seconds=0.04)
    buffer.play(FRAME)
    played = [buffer.take(SPEAKER_FRAME_BYTES)]
    buffer.play(FRAME)
    played += [buffer.take(SPEAKER_FRAME_BYTES) for _ in range(3)]
    assert played == [SILENCE, FRAME, FRAME, SILENCE]


def test_a_short_sound_is_played_although_nothing_follows():
    buffer = JitterBuffer(prefill_seconds=0.06)
    buffer.play(FRAME)
    assert [buffer.take(SPEAKER_FRAME_BYTES) for _ in range(4)] == [
        SILENCE,
        SILENCE,
        FRAME,
        SILENCE,
    ]


def test_a_flush_leaves_silence():
    buffer = JitterBuffer(prefill_seconds=0)
    buffer.play(FRAME * 3)
    assert buffer.take(SPEAKER_FRAME_BYTES) == FRAME
    buffer.flush()
    assert buffer.take(SPEAKER_FRAME_BYTES) == SILENCE
