"""Nearest-neighbour search among many vectors, in a few milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leonidas_tools.embeddings.embedder import import_numpy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leonidas_tools.embeddings.embedder import Vectors

_CANDIDATES = 400
_FEW = 2_000
"""Up to this number of vectors, all are compared exactly."""
_SCALE = 127.0


def packed(vectors: Vectors) -> list[bytes]:
    """Return each vector quantized to one byte per dimension, which keeps its direction."""
    numpy = import_numpy()
    largest = numpy.abs(vectors).max(axis=1, keepdims=True, initial=1e-9)
    return [row.tobytes() for row in numpy.rint(vectors / largest * _SCALE).astype(numpy.int8)]


class Nearest:
    """A nearest-neighbour index of the vectors of one space and one owner.

    The signs of each vector less the mean are compared first: 48 bytes for 384 dimensions. The
    best 400 vectors are then compared exactly.
    """

    def __init__(self, dimensions: int) -> None:
        numpy = import_numpy()
        self._dimensions = dimensions
        self._bytes: Any = numpy.empty((0, dimensions), dtype=numpy.int8)
        self._numbers: Any = numpy.empty(0, dtype=numpy.int64)
        self._lengths: Any = numpy.empty(0, dtype=numpy.float32)
        self._mean: Any = numpy.zeros(dimensions, dtype=numpy.float32)
        self._signs: Any = None
        self._signed = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def last(self) -> int:
        """Return the highest number of a vector, or 0."""
        return int(self._numbers[-1]) if len(self) else 0

    @property
    def size_bytes(self) -> int:
        """Return the approximate memory use of the index, in bytes."""
        return len(self) * (self._dimensions + self._dimensions // 8 + 12)

    def add(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Add vectors in ascending order of their numbers; skip vectors of another length."""
        numpy = import_numpy()
        fitting = [(number, each) for number, each in rows if len(each) == self._dimensions]
        if not fitting:
            return
        joined = b"".join(each for _, each in fitting)
        more = numpy.frombuffer(joined, dtype=numpy.int8).reshape(-1, self._dimensions)
        lengths = numpy.maximum(numpy.linalg.norm(more.astype(numpy.float32), axis=1), 1e-9)
        numbers = numpy.array([number for number, _ in fitting], dtype=numpy.int64)
        self._bytes = numpy.concatenate([self._bytes, more])
        self._lengths = numpy.concatenate([self._lengths, lengths])
        self._numbers = numpy.concatenate([self._numbers, numbers])

    def best(self, vector: Any, count: int) -> list[tuple[int, float]]:
        """Return the numbers and cosine similarities of the nearest vectors, the nearest first."""
        numpy = import_numpy()
        if len(vector) != self._dimensions or not len(self):
            return []
        asked = numpy.asarray(vector, dtype=numpy.float32)
        chosen = self._candidates(asked, max(count, _CANDIDATES))
        scores = self._bytes[chosen].astype(numpy.float32) @ asked / self._lengths[chosen]
        order = numpy.argsort(-scores, kind="stable")[:count]
        return [(int(self._numbers[chosen[at]]), float(scores[at])) for at in order]

    def _candidates(self, asked: Any, count: int) -> Any:
        """Return the positions of the vectors that may be among the nearest."""
        numpy = import_numpy()
        if len(self) <= max(_FEW, count):
            return numpy.arange(len(self))
        self._sign()
        own = self._words(asked[None, :] - self._mean)
        distances = numpy.zeros(len(self), dtype=numpy.uint16)
        for column, word in zip(self._signs, own, strict=True):  # far faster than rows of 6 words
            distances += numpy.bitwise_count(column ^ word)
        return numpy.argpartition(distances, count)[:count]

    def _sign(self) -> None:
        """Compute missing signs; recompute all with a new mean once the vectors have doubled."""
        numpy = import_numpy()
        if self._signed == len(self):
            return
        if self._signs is None or len(self) > 2 * self._signs.shape[1]:
            sample = self._bytes[:: max(len(self) // 20_000, 1)].astype(numpy.float32)
            lengths = numpy.linalg.norm(sample, axis=1, keepdims=True)
            self._mean = (sample / numpy.maximum(lengths, 1e-9)).mean(axis=0)
            self._signs, self._signed = None, 0
        pieces = [] if self._signs is None else [self._signs]
        for start in range(self._signed, len(self), 10_000):
            some = slice(start, start + 10_000)
            rows = self._bytes[some].astype(numpy.float32) / self._lengths[some, None]
            pieces.append(self._words(rows - self._mean))
        self._signs, self._signed = numpy.concatenate(pieces, axis=1), len(self)

    def _words(self, rows: Any) -> Any:
        """Return the signs of the rows, 64 per word, with one column for each row."""
        numpy = import_numpy()
        bits = numpy.packbits(rows > 0, axis=1)
        missing = -bits.shape[1] % 8
        words = numpy.pad(bits, ((0, 0), (0, missing))).view(numpy.uint64)
        return numpy.ascontiguousarray(words.T)
