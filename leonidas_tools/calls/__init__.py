"""What flows: calls, results, events and the context of a running call."""
