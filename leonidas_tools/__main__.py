"""`python -m leonidas_tools`: the same as the program `leonidas`."""

from leonidas_tools.cli import main

if __name__ == "__main__":
    main()
