"""Small values that are made several times for each call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(kind: type[T]) -> type[T]:
    """Make a keyword-only dataclass that the type checker holds to be frozen.

    Enforcing that while running would cost a `setattr` a field, which makes such a value four
    times as dear; a call makes five of them.

    Example:
        >>> @record
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(x=1)
        Point(x=1, y=0)
    """
    return dataclass(kw_only=True, slots=True, unsafe_hash=True)(kind)
