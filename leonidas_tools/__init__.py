"""The tool runtime of a voice agent on Gemini Live."""
