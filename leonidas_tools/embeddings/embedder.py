"""`Embedder`: the common interface of all embedding backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from leonidas_tools.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

Role: TypeAlias = Literal["query", "passage"]
"""The role of a text: a search query, or a passage to find."""


class Embedder(Protocol):
    """Turns texts into vectors; texts of similar meaning have vectors of similar direction."""

    @property
    def space(self) -> str:
        """Return the name of the vector space; only vectors of the same space are comparable."""

    async def embed(self, texts: Sequence[str], role: Role) -> Vectors:
        """Return one row of length 1 for each text.

        Raises:
            ModelError: The texts cannot be embedded; the error says why.
        """


def unit_rows(vectors: Any, count: int) -> Vectors:
    """Return the vectors scaled to length 1.

    Raises:
        ModelError: The number of vectors is not `count`, or a vector has no finite numbers.
    """
    numpy = import_numpy()
    try:
        rows: Vectors = numpy.asarray(vectors, dtype=numpy.float32)
    except (TypeError, ValueError):
        rows = numpy.empty(0, dtype=numpy.float32)
    if rows.ndim != 2 or len(rows) != count or not numpy.isfinite(rows).all():  # noqa: PLR2004
        raise ModelError("the response does not have one vector for each text", reason="protocol")
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    result: Vectors = rows / numpy.where(lengths > 0, lengths, 1)
    return result


def import_numpy() -> Any:
    """Return `numpy`.

    Raises:
        ConfigurationError: `numpy` is not installed.
    """
    try:
        import numpy as np
    except ImportError:
        raise ConfigurationError(
            "numpy is not installed: pip install 'leonidas-tools[memory]'"
        ) from None
    return np
