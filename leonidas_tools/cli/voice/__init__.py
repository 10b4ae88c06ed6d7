"""Microphone and speaker of the program: devices, or WAV files instead."""
