"""The program `leonidas`, with one module per command."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the program.

    Raises:
        SystemExit: Always: 0 for success, 1 for a failure, 2 for wrong usage or settings, 130
            after Ctrl-C.
    """
    try:
        from leonidas_tools.cli import app  # takes a moment, in which Ctrl-C may come

        app.main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


__all__ = ["main"]
