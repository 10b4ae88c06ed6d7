"""Embeddings from an OpenAI-compatible endpoint: llama.cpp, vLLM, Ollama and most vendors."""

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

_AT_ONCE = 64
_NO_KEY = "none"


class OpenAIEmbedder:
    """Embeds texts with an OpenAI-compatible endpoint.

    Needs the extras `agent` and `memory`.

    Args:
        model: The name of the model at the endpoint.
        base_url: The base URL, such as `http://127.0.0.1:8080/v1`; by default OpenAI's own.
        api_key: The API key; without `base_url` by default `OPENAI_API_KEY` of the environment.
        timeout_seconds: The timeout of a call of `embed`, in seconds.

    Raises:
        ConfigurationError: There is no API key for OpenAI, or the extra is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 20.0,
    ) -> None:
        self.space = f"openai/{model}"
        self._model = model
        self._base_url = base_url
        key = api_key or (os.environ.get("OPENAI_API_KEY") if base_url is None else None)
        if base_url is None and not key:
            raise ConfigurationError(
                "no API key for OpenAI is set: set OPENAI_API_KEY, or give base_url for another "
                "server"
            )
        self._key = key or _NO_KEY
        self._secrets = KnownSecrets([key] if key else ())
        self._timeout_seconds = timeout_seconds
        _openai()

    def __repr__(self) -> str:
        return f"<OpenAIEmbedder {self._model!r}>"

    async def embed(self, texts: Sequence[str], role: Role) -> Vectors:
        """Return one row of length 1 for each text.

        Raises:
            ModelError: The texts cannot be embedded; the error says why.
        """
        del role  # the endpoint has no parameter for it
        openai, rows = _openai(), list[Any]()
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                openai.AsyncOpenAI(api_key=self._key, base_url=self._base_url) as client,
            ):
                for start in range(0, len(texts), _AT_ONCE):
                    answer = await client.embeddings.create(
                        model=self._model,
                        input=list(texts[start : start + _AT_ONCE]),
                        encoding_format="float",
                    )
                    rows += [each.embedding for each in answer.data]
        except TimeoutError:
            raise ModelError(
                "the request to the embeddings server timed out", reason="timeout", retryable=True
            ) from None
        except openai.OpenAIError as error:
            said = self._secrets(f"the embeddings cannot be created: {error}")
            raise ModelError(str(said), reason="server", retryable=True) from None
        return unit_rows(rows, len(texts))


def _openai() -> Any:
    try:
        import openai
    except ImportError:
        raise ConfigurationError(
            "openai is not installed: pip install 'leonidas-tools[agent]'"
        ) from None
    return openai
