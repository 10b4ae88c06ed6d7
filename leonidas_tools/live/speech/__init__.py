"""What is done to the sound of the voice: pace, loudness, emphasis, and what waits to be heard."""
