"""The pitch of a voice, by autocorrelation."""

import numpy as np

HOP_SECONDS = 0.01
WINDOW_SECONDS = 0.05
LOWEST_HERTZ, HIGHEST_HERTZ = 70, 300
VOICED = 0.6
LOUD = 0.02


def pitch_ratio(heard, spoken, *, hertz, faster):
    """By how much the pitch of what is heard differs from that of the same moment as spoken.

    It is the median over the voiced moments. Medians of each alone would differ by which moments
    a faster voice leaves out, since a sentence falls in pitch towards its end.
    """
    ours, theirs = _pitches(heard, hertz), _pitches(spoken, hertz)
    moments = np.rint(np.arange(len(ours)) * faster).astype(int)
    inside = moments < len(theirs)
    ratios = ours[inside] / theirs[moments[inside]]
    return float(np.nanmedian(ratios))


def _pitches(samples, hertz):
    """The pitch every 10 ms, nan where there is no voice."""
    size, hop = int(WINDOW_SECONDS * hertz), int(HOP_SECONDS * hertz)
    starts = range(0, len(samples) - size, hop)
    return np.array([_pitch(samples[at : at + size], hertz) for at in starts])


def _pitch(piece, hertz):
    power = np.abs(np.fft.rfft(piece - piece.mean(), 2 * len(piece))) ** 2
    alike = np.fft.irfft(power)[: len(piece)]
    if alike[0] < LOUD**2 * len(piece):
        return np.nan
    alike = alike / alike[0] / (1 - np.arange(len(piece)) / len(piece))  # fewer samples, later
    shortest, longest = hertz // HIGHEST_HERTZ, hertz // LOWEST_HERTZ
    lag = shortest + int(np.argmax(alike[shortest:longest]))
    return hertz / lag if alike[lag] > VOICED else np.nan
