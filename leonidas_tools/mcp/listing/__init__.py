"""The tools that a server lists, and their registration here."""
