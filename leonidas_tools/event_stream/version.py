"""The version of the events."""

VERSION = 1
"""Raised when a field changes or goes; new fields and events may come at any time."""
