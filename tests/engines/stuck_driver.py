"""A driver that sends the bytes in an environment variable, and then neither reads nor ends."""

import os
import sys
import threading


def main() -> None:
    os.write(int(sys.argv[1]), bytes.fromhex(os.environ["STUCK_DRIVER_SENDS"]))
    threading.Event().wait()
