"""Take the text out of a page: a program that reads HTML and writes JSON.

It runs as a process of its own, so that a page made to hold it up costs no more than that process.
The first line of its input is JSON: the character set and how much text to write.
"""

import json
import resource
import sys

_MOST_BYTES = 2 << 30
_MOST_SECONDS = 20


def extracted(page: bytes, charset: str | None) -> dict[str, str]:
    """Return title, text and date of a page."""
    import trafilatura
    from trafilatura.utils import decode_file

    try:
        text = page.decode(charset, "replace") if charset else decode_file(page)
    except LookupError:  # no such character set
        text = decode_file(page)
    main_part = trafilatura.extract(text, output_format="json", with_metadata=True)
    found = json.loads(main_part) if main_part else {}
    about = None if found else trafilatura.extract_metadata(text)
    return {
        "title": found.get("title") or (about and about.title) or "",
        "text": found.get("text") or trafilatura.html2txt(text),
        "date": found.get("date") or "",
    }


def main() -> None:
    """Read a page from the standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
    import trafilatura  # noqa: F401 - while the page is being fetched

    asked = json.loads(sys.stdin.buffer.readline())
    found = extracted(sys.stdin.buffer.read(), asked["charset"])
    most = asked["characters"]
    found["text"] = found["text"][:most]
    found["title"] = found["title"][:most]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
