"""The whole state of an object as plain values, so that two of them can be compared."""

import random
from collections.abc import Mapping
from typing import Any

_TIMES_OF_CHANGE = {"_last_modified"}


def state(value: Any, above: tuple[int, ...] = ()) -> Any:
    """What an object holds, private parts and random generators included.

    Times of change are left out, since two runs never share them, and a way back to an object
    above is cut.
    """
    if id(value) in above:
        return "<above>"
    above = (*above, id(value))
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, (list, tuple, set)):
        return [state(item, above) for item in value]
    if isinstance(value, Mapping):
        kept = value.keys() - _TIMES_OF_CHANGE
        return {key: state(value[key], above) for key in kept}
    if hasattr(value, "__dict__"):
        return {"class": type(value).__name__, "holds": state(vars(value), above)}
    return value
