"""The program `leonidas`: one file a command."""

from leonidas_tools.cli.app import main

__all__ = ["main"]
