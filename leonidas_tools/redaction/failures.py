"""Describe exceptions in logs without their texts, which may contain secrets."""

from __future__ import annotations


def described(error: BaseException) -> str:
    """Return the type of an exception and where it was raised, without its text.

    Example:
        >>> described(ValueError("the password is hunter2"))
        'ValueError'
    """
    in_worker = vars(type(error)).get("raised_at")  # set by `processes`: there is no traceback
    place = in_worker if type(in_worker) is str else raised_at(error)
    return f"{type(error).__name__} at {place}" if place else type(error).__name__


def raised_at(error: BaseException) -> str:
    """Return the file and line where an exception was raised; empty if it was not raised."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return "" if last is None else f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}"
