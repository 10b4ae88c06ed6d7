"""One run of one workload with one adapter in this process; the figures go to stdout as JSON."""

import json
import sys

from tests.benchmarks.suite import load


def main() -> None:
    """Reads workload, adapter and `--quick` from the command line."""
    workload, adapter, *flags = sys.argv[1:]
    figures = load(workload).measure(adapter, "--quick" in flags)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
