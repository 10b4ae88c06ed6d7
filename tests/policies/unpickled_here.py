"""A module that is only imported where something was unpickled."""
