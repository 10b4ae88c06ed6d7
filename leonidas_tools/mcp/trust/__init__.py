"""Pinned tool definitions and the quarantine of changed ones."""
