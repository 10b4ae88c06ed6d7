"""Bounded reading, private files, and the data directory of the user."""
