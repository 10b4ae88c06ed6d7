"""Change the pace, loudness and emphasis of the voice, and buffer audio until it is played."""
