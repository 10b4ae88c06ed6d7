"""Embed texts as vectors for semantic search: offline or with a service."""

from leonidas_tools.embeddings.embedder import Embedder, Role
from leonidas_tools.embeddings.gemini import GeminiEmbedder
from leonidas_tools.embeddings.local import LocalEmbedder
from leonidas_tools.embeddings.openai import OpenAIEmbedder
from leonidas_tools.embeddings.settings import EmbedderSettings, make_embedder

__all__ = [
    "Embedder",
    "EmbedderSettings",
    "GeminiEmbedder",
    "LocalEmbedder",
    "OpenAIEmbedder",
    "Role",
    "make_embedder",
]
