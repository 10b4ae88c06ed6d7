"""Make invisible characters visible, and disarm those that rewrite what a terminal shows."""

from __future__ import annotations

import logging
import re
import traceback
import unicodedata

_SEQUENCES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and cursor movements of a terminal
    "|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # titles and links
    "|\x1b[ -/]*[0-~]?"
)
_UNSEEN_CLASS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and line feed
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # fillers
    "\u0600-\u0605\u06dd\u070f\u08e2"  # format characters of Arabic and Syriac
    "\u200b-\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff"  # zero width, line ends, bidi
    "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # variation selectors
    "\ufff0-\ufffb\U000e0000-\U000e00ff"  # tags, which spell ASCII unseen
    "\U000110bd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_UNSEEN = re.compile(f"[{_UNSEEN_CLASS}]")
_NOT_PLAIN = re.compile(
    f"[{_UNSEEN_CLASS}\t\n"
    "\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000"  # spaces that push text away
    "\ud800-\udfff\ue000-\uf8ff]"  # surrogates, private use
)
_HIDES = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800\u034f")


def visible(text: str, *, keep: str = "") -> str:
    r"""Return the text on one line, with each control or format character as `<U+…>`.

    Use it wherever text of a model, a tool or a server is shown to a person: nothing in the result
    moves the cursor, changes the writing direction or is invisible.

    Example:
        >>> visible("rm -rf /\r\x1b[2KShow the\u202e list")
        'rm -rf /<U+000D><U+001B>[2KShow the<U+202E> list'
    """
    if text.isascii() and text.isprintable():
        return text
    return _NOT_PLAIN.sub(lambda found: found[0] if found[0] in keep else _named(found), text)


def revealed(text: str) -> str:
    r"""Return the text with each invisible character as `<U+…>`; tabs and line feeds stay.

    Example:
        >>> revealed("Adds\u200b numbers\x1b[8m.")
        'Adds<U+200B> numbers<U+001B>[8m.'
    """
    return _UNSEEN.sub(_named, text)


def visible_json(text: str) -> str:
    r"""Return a JSON text with the characters escaped that a terminal does not show as such.

    Example:
        >>> visible_json('["a\u202eb"]')
        '["a\\u202eb"]'
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _NOT_PLAIN.sub(lambda found: found[0] if found[0] == "\n" else _escaped(found[0]), text)


def indented(text: str) -> str:
    """Return the text with each line indented and made `visible`."""
    return "\n".join(f"  {visible(line)}" for line in text.split("\n"))


def visible_logger(name: str) -> logging.Logger:
    """Return the logger of a module; each record is one line without invisible characters.

    Log messages contain texts of models, tools and servers. Such a text must not begin a line
    that looks like another record. A traceback is indented.
    """
    logger = logging.getLogger(name)
    logger.addFilter(_written_out)
    return logger


def without_unseen(text: str) -> str:
    r"""Return the text without control sequences and invisible characters.

    Example:
        >>> without_unseen("Adds\u200b \x1b[8mand tells\x1b[0m two\U000e0041\U000e0042 numbers.")
        'Adds and tells two numbers.'
    """
    return _UNSEEN.sub("", _SEQUENCES.sub("", text))


def one_line(text: str) -> str:
    r"""Return the text on one line, with a space for each control or format character.

    Example:
        >>> one_line("Hello\n  \x1b[31mworld")
        'Hello world'
    """
    spaced = (
        " " if unicodedata.category(each)[0] in "CZ" else each for each in _SEQUENCES.sub(" ", text)
    )
    return " ".join("".join(spaced).split())


def is_visible(character: str) -> bool:
    """Return whether a character is visible, and not a variant of a plain one."""
    category = unicodedata.category(character)
    if category in _INVISIBLE_CATEGORIES or character in _BLANK:
        return False
    if category == "Zs" and character != " ":
        return False
    if unicodedata.name(character, "").startswith("VARIATION SELECTOR"):
        return False
    # Forms such as fullwidth letters or superscripts read like the plain ones.
    return category[0] not in "LN" or unicodedata.normalize("NFKC", character) == character


def hides(text: str) -> bool:
    """Return whether a text has characters that no legitimate name or value needs."""
    return _HIDES.search(text) is not None


def _named(found: re.Match[str]) -> str:
    return f"<U+{ord(found[0]):04X}>"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _written_out(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(map(_argument, record.args))
    if record.exc_info and record.exc_info[1] is not None:
        trace = "".join(traceback.format_exception(record.exc_info[1]))
        record.exc_text = indented(trace.rstrip("\n"))
    return True


def _argument(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    return visible(value) if isinstance(value, str) else _Argument(value)


class _Argument:
    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return visible(str(self._value))

    def __repr__(self) -> str:
        return visible(repr(self._value))
