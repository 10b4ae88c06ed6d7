"""Agents on a simulated Gemini Live server, each in its way."""
