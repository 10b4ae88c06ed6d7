"""Threads and processes that run functions beside the event loop."""
