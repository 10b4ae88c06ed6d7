"""What a conversation keeps: agent state, speech state and the task list."""
