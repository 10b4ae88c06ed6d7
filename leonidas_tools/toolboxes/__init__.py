"""Built-in tools, a file a subject; each exports `TOOLS` and registers nothing."""
