"""Which lane a function belongs to when nobody says."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def lane_key(function: Callable[..., Any]) -> str:
    """The lane of a function: that of the object it is bound to, else that of its module.

    A partial belongs to the lane of its function, a closure or lambda to its module's.

    Example:
        >>> lane_key(functools.partial(lane_key)) == lane_key(lane_key)
        True
    """
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        return f"object:{id(owner):x}"
    if not inspect.isroutine(function) and not inspect.isclass(function):
        return f"object:{id(function):x}"
    return f"module:{getattr(function, '__module__', None) or ''}"
