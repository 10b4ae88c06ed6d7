"""Where tools run besides this process: engines of others, for heavy or for durable work."""
