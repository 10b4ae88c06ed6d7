"""State of a conversation: agent state, speech state and the task list."""
