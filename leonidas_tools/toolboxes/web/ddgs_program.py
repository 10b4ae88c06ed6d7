"""Query several search engines: a program that reads and writes JSON.

It is a separate process, since the threads of `ddgs` cannot be stopped, and `ddgs` would use the
proxy of the environment.
"""

import json
import resource
import sys
import time
from typing import Any

_MAX_BYTES = 1 << 30


def search(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the results, or whether the search engines are unreachable."""
    from ddgs import DDGS
    from ddgs.exceptions import DDGSException

    began = time.monotonic()
    engines = DDGS(proxy=asked["proxy"], timeout=asked["seconds"])
    try:
        results = engines.text(asked["query"], region=asked["region"], max_results=asked["results"])
    except DDGSException as error:
        # The error is the same if no search engine has responded in time.
        is_in_time = time.monotonic() - began < asked["seconds"]
        return {"unreachable": not (is_in_time and str(error) == "No results found.")}
    return {"results": results}


def main() -> None:
    """Read a query from the standard input, and write its results, with a limit of the memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MAX_BYTES, _MAX_BYTES))
    json.dump(search(json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
