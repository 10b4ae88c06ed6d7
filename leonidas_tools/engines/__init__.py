"""Engines of others that run tools outside this process, for heavy or for durable work."""
