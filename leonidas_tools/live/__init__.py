"""Gemini Live: the session loop, connections and the simulator."""
