"""A module that cannot be imported; asked for by a test."""

raise RuntimeError("it is broken")
