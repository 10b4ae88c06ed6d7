"""Threads and processes that run functions outside the event loop."""
