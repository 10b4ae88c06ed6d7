"""State of a conversation: agent and speech state, tasks, notices, and what tools keep."""
