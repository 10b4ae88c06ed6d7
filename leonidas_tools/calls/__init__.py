"""Calls, results, events and the context of a running call."""
