"""Reject unknown arguments of a constructor, and suggest the closest name."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
Owner = TypeVar("Owner")


def known_arguments_only(
    init: Callable[Concatenate[Owner, P], None],
) -> Callable[Concatenate[Owner, P], None]:
    """Raise `TypeError` for an argument that `__init__` does not have, and suggest the closest."""

    @functools.wraps(init)
    def checked(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> None:
        code = init.__code__
        known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        for name in [each for each in kwargs if each not in known]:
            from leonidas_tools.settings.explain import closest

            near = closest(name, known)
            hint = f"; did you mean {near!r}? It takes" if near else "; it takes"
            kind = type(self).__name__
            raise TypeError(f"{kind} has no argument {name!r}{hint} {', '.join(known)}")
        init(self, *args, **kwargs)

    return checked
