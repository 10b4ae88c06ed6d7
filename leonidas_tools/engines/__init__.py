"""External engines that run tools outside this process, for heavy or durable work."""
