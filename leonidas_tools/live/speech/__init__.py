"""Change the pace, loudness and emphasis of the voice, and queue what is not yet heard."""
