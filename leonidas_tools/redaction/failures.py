"""Exceptions in logs: what they are and where they were raised, but not their words."""

from __future__ import annotations


def described(error: BaseException) -> str:
    """The kind of an exception and where it was raised; its text may hold a secret.

    Args:
        error: An exception that was raised.

    Example:
        >>> described(ValueError("the password is hunter2"))
        'ValueError'
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return type(error).__name__
    return f"{type(error).__name__} at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}"
