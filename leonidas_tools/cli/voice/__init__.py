"""Microphone and speaker of the program: devices, or WAV files in their place."""
