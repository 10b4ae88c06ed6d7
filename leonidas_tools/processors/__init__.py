"""The stages for genai-processors: parts in, parts out; one file for each stage."""
