"""Ask a person to approve a call, and verify the answer against the transcript."""
