"""Gemini Live: the session loop, and a conversation over its connections."""
