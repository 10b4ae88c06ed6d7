"""A module that another process needs longer to import than its tool may take."""

import sys
import time

from leonidas_tools import tool

if "pytest" not in sys.modules:
    time.sleep(1)


@tool(cpu_bound=True)
def quick() -> str:
    return "quick"
