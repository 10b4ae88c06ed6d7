"""Find known secrets in all the forms in which a tool may return them."""

from __future__ import annotations

import base64
import bisect
import functools
import html
import itertools
import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, quote_plus

from leonidas_tools.redaction.escaped import Unescaped, escapes_letters
from leonidas_tools.redaction.spelled import SHORTEST_SPELLING, Spellings
from leonidas_tools.redaction.text import MASK, distinct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

SHORTEST_SECRET = 3
"""Least length of a secret; shorter values, such as `1` or `on`, occur in any text."""
PIECE = 8
"""Least length at which a piece of a secret is masked."""
_LEAST_NUMBER = 100
_SHORTEST_ENCODED = 6
_LONGEST_WORD_OF_DIGITS = 5
_SHORTEST_LINE = 16
_LONGEST_WORD = 15
"""Most letters of a word; a longer run of letters is a key."""
_MOST_POSITIONS = 100_000
"""Most positions in all forms of the secrets by which a piece is found: a model may pass a secret
of any length, and to record each position in it would block the event loop."""
_MOST_EXTENSIONS = 16
"""Most positions in a secret compared with one piece: a secret may repeat itself."""

# A text with public parts (a path, an address, an email) is masked as a whole only.
_PUBLIC_IN_PART = re.compile(
    r"[/\\~.]|[A-Za-z]:[/\\]|\w+://[^@?#]*\Z|[^@\s]+@[\w-]+(?:\.[\w-]+)+\Z"
)
_TOKEN = re.compile(r"[^\s\"'<>()\[\]{},;…\\=&:?|]{8,}")
_SEPARATOR = re.compile(r"[\s\"'<>()\[\]{},;…\\=&:?|.]")
_WORDS = re.compile(r"[^\W\d_,.]*(?:[ ,.]+[^\W\d_,.]*)*")
_WORD = re.compile(r"[^\W\d_]{3,}")
_MOST_ON_LOOP = 16_384
"""Most characters of secrets searched for on the event loop; each secret counts 128 more."""
_LEAST_COUNTED = 128
_LONGEST_UNTOLD = 64
"""Most characters of a piece of a sentence that may reveal nothing."""
_ESCAPED_SOMEWHERE = re.compile(r"[^A-Za-z0-9_.~-]")
_PLAIN_WORD = re.compile(r"[a-z0-9]{4,}")
_LEVELS = 3
"""Levels of escapes that are undone, such as an address in JSON in HTML."""
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}

Span: TypeAlias = tuple[int, int]


class KnownSecrets:
    """Masks known texts wherever they occur in plain JSON, also encoded, split or cut.

    The search ignores case. It covers keys, values and JSON in texts; JSON, `repr`, URL, HTML,
    Base64 and hexadecimal encoding, what `Unescaped` undoes and `Spellings` finds; the items of a
    list taken together; and numbers. A piece of at least eight characters is masked at the
    beginning or end of a word or a text, since the secret may be cut there. Three characters, up
    to five digits, or up to seven letters are masked only as a whole word.

    Args:
        texts: The secrets. Those shorter than three characters are ignored.

    Example:
        >>> secrets = KnownSecrets(["s3cr3t-4711-zebra", "123"])
        >>> secrets({"said": "czNjcjN0LTQ3MTEtemVicmE=", "cut": "s3cr3t-471…", "n": [123, 1234]})
        {'said': '***', 'cut': '***…', 'n': ['***', 1234]}
    """

    def __init__(self, texts: Iterable[str]) -> None:
        long = {text for text in texts if len(text) >= SHORTEST_SECRET}
        self.texts = tuple(sorted(long, key=lambda text: (-len(text), text)))
        """The secrets, the longest first."""

    def __bool__(self) -> bool:
        return bool(self.texts)

    def __repr__(self) -> str:
        return f"<{len(self.texts)} known secrets>"

    def __call__(self, value: Any) -> Any:
        """Return a copy of plain JSON with the secrets masked; the value itself if it has none."""
        if isinstance(value, str):  # also a `MessageText`, which has a key
            return self.text(value)
        leaves = list(self._leaves(value))
        if not leaves:
            return value
        # Sorted by key, so that a secret split over a list of objects is one text again.
        order = dict[str, list[int]]()
        for index, (group, _, _) in enumerate(leaves):
            order.setdefault(group, []).append(index)
        places = list(itertools.chain.from_iterable(order.values()))
        texts = [leaves[index][1] for index in places]
        masked = self._masked(texts, [leaves[index][2] for index in places])
        if not masked:
            return value
        return _rebuilt(value, {places[at]: text for at, text in masked.items()}, self._counts)

    def text(self, text: str) -> str:
        """Return the text with the secrets masked."""
        return self._masked([text], [False]).get(0, text)

    def continued(self, before: str, text: str) -> str:
        """Mask a text that continues another one, which was masked and sent earlier."""
        spans = self._spans(before + text, [0, len(before) + len(text)])
        at = len(before)
        return _without(text, [(max(a - at, 0), b - at) for a, b in spans if b > at])

    def are_in(self, data: bytes) -> bool:
        """Return whether any secret occurs in the bytes."""
        return any(
            text.encode("utf-8", "surrogatepass") in data
            or text.encode("utf-16-le", "surrogatepass")[:-1] in data
            for text in self.texts
        )

    @functools.cached_property
    def are_many(self) -> bool:
        """Return whether a search for them would block the event loop: a model may choose them."""
        return sum(len(text) + _LEAST_COUNTED for text in self.texts) > _MOST_ON_LOOP

    @functools.cached_property
    def longest(self) -> int:
        """Return the length of the longest form of a secret, at six characters a letter."""
        spelled = (6 * len(text) for text in self.texts)
        return max((*map(len, self._forms), *spelled), default=0)

    @functools.cached_property
    def _forms(self) -> dict[str, bool]:
        """Return each form in lower case, and whether pieces of it are masked."""
        forms = dict[str, bool]()
        for text in self.texts:
            pieces = len(text) >= PIECE and not _PUBLIC_IN_PART.match(text) and not _is_word(text)
            for form in _forms_of(text):
                lowered = _lowered(form)
                forms[lowered] = forms.get(lowered, False) or pieces
        return forms

    @functools.cached_property
    def _sentences(self) -> frozenset[str]:
        """Return the forms of secrets that contain spaces."""
        spaced = (text for text in self.texts if " " in text)
        return frozenset(_lowered(form) for text in spaced for form in _forms_of(text))

    @functools.cached_property
    def _grams(self) -> dict[str, list[tuple[str, int]]]:
        """Return the positions in the forms of each sequence of eight characters.

        If the forms are very long in total, only positions near their beginnings and ends count.
        """
        grams = dict[str, list[tuple[str, int]]]()
        forms = [form for form, pieces in self._forms.items() if pieces]
        most = max(_MOST_POSITIONS // max(len(forms), 1), 2)
        for form in forms:
            count = max(len(form) - PIECE + 1, 0)
            head = count if count <= most else most // 2
            for at in itertools.chain(range(head), range(max(head, count - most // 2), count)):
                places = grams.setdefault(form[at : at + PIECE], [])
                if len(places) < _MOST_EXTENSIONS:
                    places.append((form, at))
        return grams

    @functools.cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self.texts, [text for text in self.texts if _PUBLIC_IN_PART.match(text)])

    @functools.cached_property
    def _numbers(self) -> frozenset[float]:
        return frozenset(number for text in self.texts for number in _numbers_of(text))

    @property
    def _counts(self) -> bool:
        """Return whether numbers can be secret."""
        return bool(self._numbers)

    def _leaves(
        self, value: Any, group: str = "", depth: int = 0
    ) -> Iterator[tuple[str, str, bool]]:
        """Yield texts and numbers in order: the key above, the text, whether it is a number."""
        kind = type(value)
        if kind is str:
            yield group, value, False
        elif kind is dict:
            for key, item in value.items():
                yield "\0", key, False
                yield from self._leaves(item, key, depth + 1)
        elif kind is list:
            for item in value:
                yield from self._leaves(item, group, depth + 1)
        elif (kind is int or kind is float) and self._counts:
            yield group, str(value), True

    def _masked(self, texts: list[str], are_numbers: list[bool]) -> dict[int, str]:
        """Return the texts that change, with secrets masked, by index."""
        starts = [0, *itertools.accumulate(map(len, texts))]
        masked = dict[int, list[Span]]()
        for start, end in self._spans("".join(texts), starts):
            at = bisect.bisect_right(starts, start) - 1
            while at < len(texts) and starts[at] < end:
                span = max(start - starts[at], 0), min(end, starts[at + 1]) - starts[at]
                if not are_numbers[at] or self._is_number(texts[at], span):
                    masked.setdefault(at, []).append(span)
                at += 1
        found = {at: _without(texts[at], spans) for at, spans in masked.items()}
        if self._counts:
            numbers = (at for at, is_number in enumerate(are_numbers) if is_number)
            found.update((at, MASK) for at in numbers if float(texts[at]) in self._numbers)
        return found

    def _is_number(self, text: str, span: Span) -> bool:
        """Return whether the span reveals a secret, rather than a few digits of a longer number."""
        return span[1] - span[0] >= min(PIECE, len(text))

    def _spans(self, joined: str, starts: list[int]) -> list[Span]:
        """Return the sorted, disjoint spans of secrets in concatenated texts."""
        lowered = _lowered(joined)
        spans = self._found(lowered, starts)
        if any(word in lowered for word in self._plain_words):
            spans += self._escapable._escaped(lowered, starts, _LEVELS)  # noqa: SLF001 - our class
        if escapes_letters(lowered):
            spans += self._escaped(lowered, starts, _LEVELS)
        return _merged(spans)

    @functools.cached_property
    def _escapable(self) -> KnownSecrets:
        """Return the secrets with characters that encodings escape in more than one way.

        A secret with an escape such as `%41` is also included with the escape undone; a secret
        with a space is also included with `+` instead, as in forms.
        """
        odd = [text for text in self.texts if _ESCAPED_SOMEWHERE.search(text)]
        undone = (Unescaped(_lowered(text)).text for text in odd)
        return KnownSecrets([*odd, *undone, *(text.replace(" ", "+") for text in odd)])

    @functools.cached_property
    def _plain_words(self) -> frozenset[str]:
        """Return words of secrets that no escape changes; a text without them needs no search."""
        words = (_PLAIN_WORD.findall(_lowered(text)) or [""] for text in self._escapable.texts)
        return frozenset(itertools.chain.from_iterable(words))

    def _escaped(self, lowered: str, starts: list[int], levels: int) -> Iterator[Span]:
        """Yield the spans of secrets that occur after escapes are undone."""
        view = Unescaped(lowered) if levels else None
        if not view:
            return
        places = view.now(starts)
        for start, end in (
            *self._found(view.text, places),
            *self._escaped(view.text, places, levels - 1),
        ):
            yield view.before(start, end)

    def _found(self, lowered: str, starts: list[int]) -> list[Span]:
        """Return the spans of secrets in a text in lower case."""
        spans: list[Span] = []
        for form in self._forms:
            at = lowered.find(form)
            while at >= 0:
                end = at + len(form)
                if self._tells(lowered, at, end, starts):
                    spans.append((at, end))
                at = lowered.find(form, end)
        if len(lowered) >= SHORTEST_SPELLING:
            spelled = self._spellings.spans(lowered, spans)
            spans += [
                (start, end)
                for start, end in spelled
                if not lowered[start:end].isalpha() or self._tells(lowered, start, end, starts)
            ]
        if self._grams:
            spans += self._pieces(lowered, starts, [end for _, end in spans])
        return spans

    def _tells(self, text: str, start: int, end: int, starts: list[int]) -> bool:
        """Return whether a match counts; a short one or a word must be a whole word in one text."""
        form = text[start:end]
        is_number = form.isdigit()
        if len(form) >= PIECE:
            return True
        at = bisect.bisect_right(starts, start) - 1
        low, high = starts[at], starts[at + 1]
        if end > high:
            return len(form) >= _SHORTEST_ENCODED and not is_number
        is_short = len(form) <= (_LONGEST_WORD_OF_DIGITS if is_number else SHORTEST_SECRET)
        if not is_short and not form.isalpha():
            return True
        # A secret such as `main` stays readable in `domain`.
        is_same = str.isdigit if is_number else str.isalnum if is_short else str.isalpha
        return not (
            (start > low and is_same(text[start - 1])) or (end < high and is_same(text[end]))
        )

    def _pieces(self, text: str, starts: list[int], ends: list[int]) -> Iterator[Span]:
        """Yield pieces of secrets at the edges of texts and words, and after a whole secret."""
        begins, finishes = [*ends], list[Span]()
        for low, high in self._words(text, starts):
            begins.append(low)
            finishes += _finishes(text, low, high)
        if self._has_separators:  # a piece may contain separators
            grams = self._grams
            for found in _SEPARATOR.finditer(text):
                # Looked up here first: most separators are not beside a piece.
                start, end = found.span()
                if text[end : end + PIECE] in grams:
                    begins.append(end)
                if start >= PIECE and text[start - PIECE : start] in grams:
                    finishes.append((start, start))
        if begins:
            yield from self._begun(text, sorted(begins))
        if finishes:
            yield from self._ended(text, sorted(finishes, reverse=True))

    def _words(self, text: str, starts: list[int]) -> Iterator[Span]:
        """Yield the texts, and the words in them that may begin or end with a piece."""
        grams = self._grams
        for low, high in itertools.pairwise(starts):
            if high - low >= PIECE and (
                text[low : low + PIECE] in grams
                or text[high - PIECE : high] in grams
                or text[high - 1] == "="  # Base64, of which the end may be cut
            ):
                yield low, high
        for found in _TOKEN.finditer(text):
            start, end = found.span()
            if text[start : start + PIECE] in grams or text[end - PIECE : end] in grams:
                yield start, end
            elif text[end - 1] in "=.":  # a cut text, marked by padding or dots
                end = start + len(found[0].rstrip("."))
                if end - start >= PIECE:
                    yield start, end

    @functools.cached_property
    def _has_separators(self) -> bool:
        return any(_SEPARATOR.search(gram) for gram in self._grams)

    def _begun(self, text: str, begins: Iterable[int]) -> Iterator[Span]:
        """Yield the pieces that begin at these places, in ascending order.

        Only pieces that go beyond an earlier one are compared, or a text that repeats itself would
        take quadratic time.
        """
        reach = 0
        for low in begins:
            places = self._grams.get(text[low : low + PIECE], ())
            end = max(reach + 1, low + PIECE)
            if not places or end > len(text):
                continue
            piece = text[low:end]
            for form, at in places:
                if not form.startswith(piece, at):
                    continue
                most = min(low + len(form) - at, len(text))
                while end < most and text[end] == form[at + end - low]:
                    end += 1
                if self._is_telling(text[low:end], form):
                    reach = end
                    yield low, end
                    if end == len(text):
                        break
                    end += 1
                else:
                    end = low + len(piece)
                piece = text[low:end]

    def _ended(self, text: str, finishes: Iterable[Span]) -> Iterator[Span]:
        """Yield the pieces that end at these places, in descending order; see `_begun`.

        Each place is the end of the span to mask, and the end of the piece in it.
        """
        reach = len(text)
        for shown, high in finishes:
            places = self._grams.get(text[high - PIECE : high], ())
            start = min(reach - 1, high - PIECE)
            if not places or start < 0:
                continue
            piece = text[start:high]
            for form, at in places:
                begin = at + PIECE - len(piece)
                if begin < 0 or not form.startswith(piece, begin):
                    continue
                while start > 0 and begin > 0 and text[start - 1] == form[begin - 1]:
                    start, begin = start - 1, begin - 1
                if self._is_telling(text[start:high], form):
                    reach = start
                    yield start, shown
                    if start == 0:
                        break
                    start -= 1
                else:
                    start = high - len(piece)
                piece = text[start:high]

    def _is_telling(self, piece: str, form: str) -> bool:
        """Return whether a piece reveals a secret: a single word of a sentence does not."""
        if len(piece) > _LONGEST_UNTOLD or form not in self._sentences:
            return True
        return not _WORDS.fullmatch(piece) or len(_WORD.findall(piece)) > 1


class _Together(KnownSecrets):
    def __init__(self, parts: Collection[KnownSecrets]) -> None:
        super().__init__(itertools.chain.from_iterable(part.texts for part in parts))
        self._parts = parts

    @functools.cached_property
    def longest(self) -> int:
        return max(part.longest for part in self._parts)

    def _spans(self, joined: str, starts: list[int]) -> list[Span]:
        found = (part._spans(joined, starts) for part in self._parts)  # noqa: SLF001 - our class
        return _merged(list(itertools.chain.from_iterable(found)))


def together(parts: Collection[KnownSecrets]) -> KnownSecrets:
    """Return an object that masks the secrets of all parts at once, with their prepared data.

    Masking one part after another could mask a piece of one secret and leave too little of another
    to be found.

    Example:
        >>> parts = [KnownSecrets(["ACME-2026-kitchen"]), KnownSecrets(["ACME-2026-4711"])]
        >>> together(parts).text("It is ACME-2026-4711.")
        'It is ***.'
    """
    if len(parts) == 1:
        return next(iter(parts))
    return _Together(parts)


def _finishes(text: str, low: int, high: int) -> Iterator[Span]:
    """Yield the end of a word, with each place at which a piece may end in it."""
    yield high, high
    if text[high - 1] == "=":
        # The last character of cut Base64 encodes an incomplete byte.
        end = low + len(text[low:high].rstrip("=")) - 1
        if end - low >= PIECE:
            yield high, end


def _is_word(text: str) -> bool:
    """Return whether a text looks like a word; other words may begin with the same letters."""
    return text.isalpha() and len(text) <= _LONGEST_WORD


def _forms_of(text: str) -> Iterator[str]:
    """Yield a secret itself, and its encoded forms."""
    yield text
    if len(text) < _SHORTEST_ENCODED:
        return
    for ascii_only in (True, False):
        written = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield written
        yield json.dumps(written, ensure_ascii=ascii_only)[1:-1]
        yield written.replace("/", "\\/")
    data = text.encode("utf-8", "surrogatepass")
    yield from (repr(text)[1:-1], ascii(text)[1:-1], repr(data)[2:-1])
    yield from (repr(text + "'")[1:-2], repr(text + "'\"")[1:-4])
    for url in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield url
        yield quote(url, safe="")
    yield from (html.escape(text), html.escape(text, quote=False), data.hex())
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + data).decode()
        core = encoded[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]
        if len(core) >= PIECE:
            yield from (core, core.replace("+", "-").replace("/", "_"))
    lines = (line.strip() for line in text.splitlines()) if "\n" in text else ()
    yield from (each for each in lines if len(each) >= _SHORTEST_LINE and each[:5] != "-----")


def _numbers_of(text: str) -> Iterator[float]:
    try:
        number = float(text)
    except ValueError:
        return
    # A code such as `012` is a word, not the number 12.
    if abs(number) >= _LEAST_NUMBER and number - number == 0.0:
        yield number


def _lowered(text: str) -> str:
    """Return the text in lower case with the same length, so that positions stay valid."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(_LOWER)


def _merged(spans: list[Span]) -> list[Span]:
    spans.sort()
    merged = spans[:1]
    for start, end in spans[1:]:
        if start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _without(text: str, spans: list[Span]) -> str:
    if not spans:
        return text
    parts, at = list[str](), 0
    for start, end in spans:
        parts += (text[at:start], MASK)
        at = end
    return "".join([*parts, text[at:]])


def _rebuilt(value: Any, masked: Mapping[int, str], counts: bool) -> Any:
    """Return the value with masked leaves, numbered in the order of `KnownSecrets._leaves`."""
    number = itertools.count()

    def rebuild(value: Any) -> Any:
        kind = type(value)
        if kind is dict:
            rebuilt, counts_of_keys = dict[str, Any](), dict[str, int]()
            for key, item in value.items():
                shown = masked.get(next(number), key)
                if shown is not key:
                    shown = distinct(shown, (rebuilt, value), counts_of_keys)
                rebuilt[shown] = rebuild(item)
            return rebuilt
        if kind is list:
            return [rebuild(item) for item in value]
        if kind is str or (counts and (kind is int or kind is float)):
            return masked.get(next(number), value)
        return value

    return rebuild(value)
