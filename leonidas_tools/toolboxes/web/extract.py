"""Extract the text of a page: a program that reads HTML and writes JSON.

The program is a separate process, so a page made to stall the parser costs only that process. The
first line of the input is JSON: the character set, whether the page is HTML, and the maximum
number of characters to write.
"""

import codecs
import json
import os
import re
import resource
import sys
from collections.abc import Iterator
from typing import Any

_MAX_BYTES = 2 << 30
_MIN_BYTES = 192 << 20
_BYTES_PER_BYTE = 160
"""Memory that a page may take for each of its bytes; a long table takes some 140."""
_MAX_SECONDS = 20
_NICENESS = 10
_HEAD_BYTES = 1_024
_GUESSED_BYTES = 65_536
_MAX_CHARACTER_LENGTH = 4
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(
    rb"""<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})""", re.IGNORECASE
)
_HIDING = re.compile(r"(^|;)(display:none|visibility:hidden|(font-size|opacity):0[a-z%]*(;|!|$))")
_READ_AS = {  # as browsers do
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-16-le",
}
_KNOWN = re.compile(
    r"utf-8|utf-16-[lb]e|cp125\d|cp874|cp866|cp932|cp949|iso8859-\d{1,2}|koi8-[ru]|gb18030|big5|"
    r"big5hkscs|euc_jp|iso2022_jp|mac-roman|mac-cyrillic|tis-620"
)
"""The character sets of the web; some other codecs of Python are very slow."""


def decode(body: bytes, charset: str) -> str:
    """Decode a page by its byte order mark, the server, the page itself, UTF-8, or a guess."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    for name in _find_encodings(body, charset):
        try:
            return body.decode(name)
        except UnicodeDecodeError as error:
            if error.start > len(body) - _MAX_CHARACTER_LENGTH:  # cut within a character
                return body.decode(name, "replace")
    from charset_normalizer import from_bytes

    guessed = from_bytes(body[:_GUESSED_BYTES]).best()
    return body.decode("utf-8" if guessed is None else guessed.encoding, "replace")


def _find_encodings(body: bytes, charset: str) -> Iterator[str]:
    """Yield the character sets to try, the most reliable first."""
    match = _META.search(body[:_HEAD_BYTES])
    for label in (charset, match[1].decode("ascii") if match else "", "utf-8"):
        try:
            name = codecs.lookup(label).name if label else ""
        except (LookupError, ValueError):
            continue
        name = _READ_AS.get(name, name)
        if _KNOWN.fullmatch(name):
            yield name


def extract(text: str) -> dict[str, str]:
    """Return the title, text and date of an HTML page, without hidden text."""
    import trafilatura

    tree = trafilatura.load_html(text)
    if tree is None:  # for example a single element
        tree = trafilatura.load_html(f"<html><body>{text}</body></html>")
    if tree is None:
        return {"title": "", "text": "", "date": ""}
    for element in [each for each in tree.iter("*") if _is_hidden(each)]:
        element.drop_tree()
    main_part = trafilatura.extract(tree, output_format="json", with_metadata=True)
    found = json.loads(main_part) if main_part else {}
    about = None if found else trafilatura.extract_metadata(tree)
    return {
        "title": found.get("title") or (about and about.title) or "",
        "text": found.get("text") or trafilatura.html2txt(tree),
        "date": found.get("date") or "",
    }


def _is_hidden(element: Any) -> bool:
    if element.tag in ("html", "body"):  # a script shows them later
        return False
    if element.tag == "template":
        return True
    style = re.sub(r"\s", "", element.get("style", "")).lower()
    return element.get("hidden") is not None or _HIDING.search(style) is not None


def main() -> None:
    """Read a page from the standard input, and write its text as JSON."""
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_SECONDS, _MAX_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import trafilatura  # noqa: F401 - loads while the page is being fetched

    asked = json.loads(sys.stdin.buffer.readline())
    body = sys.stdin.buffer.read()
    most_bytes = min(_MIN_BYTES + _BYTES_PER_BYTE * len(body), _MAX_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    text = decode(body, asked["charset"])
    found = extract(text) if asked["is_html"] else {"title": "", "text": text, "date": ""}
    most = asked["characters"]
    found["text"] = found["text"][:most]
    found["title"] = found["title"][:most]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
