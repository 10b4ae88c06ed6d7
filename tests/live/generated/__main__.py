"""`python -m tests.live.generated`: see `fuzz`."""

import sys

from tests.live.generated.fuzz import main

if __name__ == "__main__":
    sys.exit(main())
