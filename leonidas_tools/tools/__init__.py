"""What a tool is: its metadata, its schema, and the registry that holds it."""
