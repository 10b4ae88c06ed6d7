"""The genai-processors side: parts in, parts out; one file a stage."""
