"""`python -m leonidas_tools`: the same as the program `leonidas`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, where a model may write

    from leonidas_tools.cli import main

    main()
