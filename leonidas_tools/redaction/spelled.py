"""Find known secrets that are spelled out: reversed, encoded, or with separators between."""

from __future__ import annotations

import base64
import bisect
import functools
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789")
_FOUND = b"~"
"""Replaces the secrets that are found already; no spelling contains it."""
_SEPARATORS = bytes(each for each in range(256) if each not in {*_LETTERS, *_FOUND})
_IS_LETTER = bytes(each not in _SEPARATORS for each in range(256))
SHORTEST_SPELLING = 6
"""The least number of letters and digits of a spelling."""
_SHORTEST_IRREGULAR = 12
"""Shorter spellings count only if their letters have equal distances: any text may contain them."""
_BLOCK = 4096


class Spellings:
    r"""Finds texts that are reversed, encoded or written with separators, in linear time.

    Everything except ASCII letters and digits is a separator, which is ignored in the text and in
    the secrets. So `s-e-c-r-e-t`, `73:65:63:72:65:74` and `%73%65%63%72%65%74` are found, and so
    are Base32 in lines, `\u0073…` and `&#115;…`; in UTF-16 also hexadecimal and Base64.

    `only_encoded` are texts that are public with other separators, such as paths.

    Example:
        >>> list(Spellings(["tomato"]).spans("is 74:6f:6d:61:74:6f or o.t.a.m.o.t", []))
        [(3, 20), (24, 35)]
    """

    def __init__(self, texts: Collection[str], only_encoded: Collection[str] = ()) -> None:
        long = [text for text in texts if len(text) >= SHORTEST_SPELLING]
        said = {text.encode("latin-1", "replace") for text in long if text not in only_encoded}
        spelled = itertools.chain(said, *map(_spellings, long))
        bare = {each.lower().translate(None, _SEPARATORS) for each in spelled}
        self._forms = sorted((each for each in bare if len(each) >= SHORTEST_SPELLING), key=len)

    def spans(self, lowered: str, found: Collection[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the spans of spellings in a text in lower case; skip the spans in `found`."""
        data = lowered.encode("latin-1", "replace")
        if found:
            covered = bytearray(data)
            for start, end in found:
                covered[start:end] = _FOUND * (end - start)
            data = bytes(covered)
        bare = data.translate(None, _SEPARATORS)
        spelled = sorted(self._spelled(bare))
        place = _LetterPlaces(data) if spelled else None
        for start, length in spelled:
            assert place is not None
            first, last = place(start), place(start + length - 1)
            places = range(start, start + length) if length < _SHORTEST_IRREGULAR else ()
            if _are_equally_far(list(map(place, places))):
                yield first, last + 1

    def _spelled(self, bare: bytes) -> Iterator[tuple[int, int]]:
        for form in self._forms:
            at = bare.find(form)
            while at >= 0:
                yield at, len(form)
                at = bare.find(form, at + len(form))


class _LetterPlaces:
    """Maps letters of a text to their positions; reads each block once if called in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        counts = (
            len(data[at : at + _BLOCK].translate(None, _SEPARATORS))
            for at in range(0, len(data), _BLOCK)
        )
        self._starts = [0, *itertools.accumulate(counts)]
        self._block = functools.lru_cache(maxsize=2)(self._places_in)

    def __call__(self, letter: int) -> int:
        block = bisect.bisect_right(self._starts, letter) - 1
        return self._block(block)[letter - self._starts[block]]

    def _places_in(self, block: int) -> list[int]:
        start = block * _BLOCK
        data = self._data[start : start + _BLOCK]
        return list(itertools.compress(itertools.count(start), data.translate(_IS_LETTER)))


def _are_equally_far(places: list[int]) -> bool:
    return len({after - before for before, after in itertools.pairwise(places)}) <= 1


def _spellings(text: str) -> Iterator[bytes]:
    """Yield the encodings of a text that may contain separators."""
    yield text[::-1].encode("latin-1", "replace")
    data = text.encode("utf-8", "surrogatepass")
    # The byte orders of UTF-16 differ, for ASCII, by the zero at an end.
    wide = text.encode("utf-16-le", "surrogatepass")[:-1]
    big = text.encode("utf-16-be", "surrogatepass")
    yield from (data.hex().encode(), wide.hex().encode(), data.hex("x").encode())
    yield b"0x".join(b"%02x" % each for each in data)
    yield "".join(map(str, map(ord, text))).encode()
    yield big.hex("u", -2).encode()
    yield from _in_groups(base64.b64encode, wide, letters=4, size=3)
    yield from _in_groups(base64.b32encode, data, letters=8, size=5)


def _in_groups(
    encode: Callable[[bytes], bytes], data: bytes, *, letters: int, size: int
) -> Iterator[bytes]:
    """Yield the encoding of the data at each offset in a group of bytes."""
    for offset in range(size):
        encoded = encode(bytes(offset) + data)
        yield encoded[-(-offset * letters // size) : (offset + len(data)) * letters // size]
