"""Mask known secrets: as they are, and in the encodings in which programs write them."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from leonidas_tools.redaction.text import MASK, distinct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

MIN_SECRET_CHARACTERS = 3
"""Least length of a secret; shorter values, such as `1` or `on`, occur in any text."""
_MIN_ENCODED_CHARACTERS = 6
"""Least length of a secret that is masked within words and in encodings."""
_MAX_CHARACTERS_ON_LOOP = 16_384
"""Most characters of secrets searched for on the event loop; each secret counts 128 more."""
_MIN_COUNTED_CHARACTERS = 128
_BETWEEN = "\0\ue000\0"
"""Separates the texts of a value, which are searched as one."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,31})(?:\.\d{1,32})?")
_PERCENT = re.compile("%[0-9A-F]{2}")
_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")
_ESCAPED_BY_GO, _ESCAPED_BY_NET = (
    {ord(sign): f"\\u{ord(sign):04x}" for sign in signs} for signs in ("<>&", "<>&'+`\"")
)


class KnownSecrets:
    """Masks known texts in keys and values of plain JSON.

    A secret of at least six characters is masked wherever it occurs: unchanged, escaped as in JSON
    or a URL, in Base64, also within longer Base64, and in hexadecimal. A shorter one is masked only
    as a whole word. A number is masked if it is a secret.

    Each form is searched for by itself, since this is the fastest linear search that Python has:
    an alternation of a thousand forms takes twenty times as long.

    Args:
        texts: The secrets. Those shorter than three characters are ignored.

    Example:
        >>> secrets = KnownSecrets(["s3cr3t-4711-zebra", "123"])
        >>> secrets({"header": "Basic czNjcjN0LTQ3MTEtemVicmE=", "numbers": [123, 1234]})
        {'header': 'Basic ***', 'numbers': ['***', 1234]}
    """

    def __init__(self, texts: Iterable[str]) -> None:
        long = {text for text in texts if len(text) >= MIN_SECRET_CHARACTERS}
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
        joined = _BETWEEN.join(leaves)
        masked = self.text(joined)
        if masked is joined:
            return value
        shown = masked.split(_BETWEEN)
        if len(shown) != len(leaves):  # a text or a secret contains the separator
            shown = list(map(self.text, leaves))
        return self._rebuilt(value, iter(shown))

    def text(self, text: str) -> str:
        """Return the text with the secrets masked; the text itself if it has none."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        if self._word_pattern is not None and self._word_pattern.search(text) is not None:
            text = self._word_pattern.sub(MASK, text)
        return text

    def are_in(self, data: bytes) -> bool:
        """Return whether any secret occurs unchanged in the bytes."""
        return any(text.encode("utf-8", "surrogatepass") in data for text in self.texts)

    @functools.cached_property
    def are_many(self) -> bool:
        """Return whether a search for them would block the event loop: a model may choose them."""
        counted = (len(text) + _MIN_COUNTED_CHARACTERS for text in self.texts)
        return sum(counted) > _MAX_CHARACTERS_ON_LOOP

    @functools.cached_property
    def _forms(self) -> tuple[str, ...]:
        """Return the forms that are masked wherever they occur, the longest first."""
        long = (text for text in self.texts if len(text) >= _MIN_ENCODED_CHARACTERS)
        forms = dict.fromkeys(itertools.chain.from_iterable(map(_forms_of, long)))
        return tuple(sorted(forms, key=len, reverse=True))

    @functools.cached_property
    def _word_pattern(self) -> re.Pattern[str] | None:
        """Return a pattern for the secrets that are masked only as whole words or numbers."""
        short = [text for text in self.texts if len(text) < _MIN_ENCODED_CHARACTERS]
        return re.compile("|".join(map(_whole_word_pattern, short))) if short else None

    @functools.cached_property
    def _numbers(self) -> frozenset[float]:
        return frozenset(json.loads(text) for text in self.texts if _NUMBER.fullmatch(text))

    def _leaves(self, value: Any) -> Iterator[str]:
        """Yield the keys, texts and secret numbers of a value in order."""
        kind = type(value)
        if kind is str:
            yield value
        elif kind is dict:
            for key, item in value.items():
                yield key
                yield from self._leaves(item)
        elif kind is list:
            for item in value:
                yield from self._leaves(item)
        elif self._is_secret_number(value):
            yield self.texts[0]  # which is masked

    def _is_secret_number(self, value: Any) -> bool:
        return bool(self._numbers) and type(value) in {int, float} and value in self._numbers

    def _rebuilt(self, value: Any, shown: Iterator[str]) -> Any:
        """Return the value with other leaves, in the order of `_leaves`."""
        kind = type(value)
        if kind is dict:
            rebuilt, counts = dict[str, Any](), dict[str, int]()
            for key, item in value.items():
                name = next(shown)
                if name != key:
                    name = distinct(name, (rebuilt, value), counts)
                rebuilt[name] = self._rebuilt(item, shown)
            return rebuilt
        if kind is list:
            return [self._rebuilt(item, shown) for item in value]
        if kind is str or self._is_secret_number(value):
            return next(shown)
        return value


class _Together(KnownSecrets):
    def __init__(self, parts: Collection[KnownSecrets]) -> None:
        super().__init__(itertools.chain.from_iterable(part.texts for part in parts))
        self._parts = parts

    @functools.cached_property
    def _forms(self) -> tuple[str, ...]:
        forms = itertools.chain.from_iterable(part._forms for part in self._parts)  # noqa: SLF001 - our class
        return tuple(sorted(forms, key=len, reverse=True))


def together(parts: Collection[KnownSecrets]) -> KnownSecrets:
    """Return an object that masks the secrets of all parts at once, with their prepared forms.

    Masking one part after another could mask a piece of one secret and leave the rest of it.

    Example:
        >>> parts = [KnownSecrets(["ACME-2026"]), KnownSecrets(["ACME-2026-4711"])]
        >>> together(parts).text("It is ACME-2026-4711.")
        'It is ***.'
    """
    return next(iter(parts)) if len(parts) == 1 else _Together(parts)


def _whole_word_pattern(text: str) -> str:
    """Return a pattern for a text that has no digit, or no letter or digit, next to it."""
    adjacent = r"\d" if text.isdigit() else r"[^\W_]"
    return f"(?<!{adjacent}){re.escape(text)}(?!{adjacent})"


def _forms_of(text: str) -> Iterator[str]:
    """Yield a secret itself, and its encoded forms."""
    yield text
    for ascii_only in (True, False):
        written = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield from (written, written.replace("/", "\\/"), written.translate(_ESCAPED_BY_GO))
    net = json.dumps(text)[1:-1].replace('\\"', '"').translate(_ESCAPED_BY_NET)
    yield _ESCAPE.sub(lambda found: "\\u" + found[0][2:].upper(), net)
    data = text.encode("utf-8", "surrogatepass")
    # JavaScript leaves five more characters as they are, and .NET writes small digits.
    for url in (quote(data, safe=""), quote(data), quote(data, safe="!'()*"), quote_plus(data)):
        yield from (url, _PERCENT.sub(lambda found: found[0].lower(), url))
    yield from (data.hex(), data.hex().upper())
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + data).decode()
        whole = encoded[-(-offset * 8 // 6) :]
        # If more follows, the last letter depends on it.
        before_more = whole[: (offset + len(data)) * 8 // 6 - (len(encoded) - len(whole))]
        for core in (whole, whole.rstrip("="), before_more):
            yield from (core, core.replace("+", "-").replace("/", "_"))
