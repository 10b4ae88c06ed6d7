"""Embeddings from Gemini."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from leonidas_tools.embeddings.embedder import unit_rows
from leonidas_tools.errors import ConfigurationError, ModelError
from leonidas_tools.redaction import KnownSecrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.embeddings.embedder import Role, Vectors

GEMINI_MODEL = "gemini-embedding-001"
"""The default model."""

_AT_ONCE = 64


class GeminiEmbedder:
    """Embeds texts with Gemini.

    Needs the extra `memory`.

    Args:
        model: The name of the model.
        api_key: The API key; by default `GOOGLE_API_KEY`, else `GEMINI_API_KEY` of the environment.
        base_url: The base URL; by default Google's own.
        dimensions: The number of dimensions of a vector.
        timeout_seconds: The timeout of a call of `embed`, in seconds.

    Raises:
        ConfigurationError: There is no API key.
    """

    def __init__(
        self,
        model: str = GEMINI_MODEL,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimensions: int = 768,
        timeout_seconds: float = 20.0,
    ) -> None:
        key = api_key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
        if not key:
            raise ConfigurationError("no API key for Gemini is set: set GEMINI_API_KEY")
        self.space = f"gemini/{model}/{dimensions}"
        self._model = model
        self._key = key
        self._secrets = KnownSecrets([key])
        self._base_url = base_url
        self._dimensions = dimensions
        self._timeout_seconds = timeout_seconds

    def __repr__(self) -> str:
        return f"<GeminiEmbedder {self._model!r}>"

    async def embed(self, texts: Sequence[str], role: Role) -> Vectors:
        """Return one row of length 1 for each text.

        Raises:
            ModelError: The texts cannot be embedded; the error says why.
        """
        from google.genai import Client, types

        task = "RETRIEVAL_QUERY" if role == "query" else "RETRIEVAL_DOCUMENT"
        config = types.EmbedContentConfig(task_type=task, output_dimensionality=self._dimensions)
        options = types.HttpOptions(base_url=self._base_url)
        rows: list[Any] = []
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                Client(api_key=self._key, vertexai=False, http_options=options).aio as client,
            ):
                for start in range(0, len(texts), _AT_ONCE):
                    some: Any = list(texts[start : start + _AT_ONCE])
                    answer = await client.models.embed_content(
                        model=self._model, contents=some, config=config
                    )
                    rows += [each.values for each in answer.embeddings or ()]
        except TimeoutError:
            raise ModelError(
                "the request to Gemini timed out", reason="timeout", retryable=True
            ) from None
        except Exception as error:  # noqa: BLE001 - its HTTP clients share no base exception
            said = self._secrets(
                f"the embeddings cannot be created: {type(error).__name__}: {error}"
            )
            raise ModelError(str(said), reason="server", retryable=True) from None
        return unit_rows(rows, len(texts))
