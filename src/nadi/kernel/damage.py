"""What becomes of a state that a kernel cannot take: one named error, whatever was met on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nadi.errors import NadiError, error


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Around what is done with a state that may be any; `what` says whose it is.

    Errors: STATE_NOT_READABLE, with what was met.

    >>> try:
    ...     with fitting("'q/window'"):
    ...         [][0]
    ... except NadiError as named:
    ...     print(named.condition)
    STATE_NOT_READABLE
    """
    try:
        yield
    except NadiError:
        raise
    except Exception as problem:  # any that a wrong length, type, name or number leads to
        reason = f"what it has of {what} does not fit: {type(problem).__name__}: {problem}"
        raise error("STATE_NOT_READABLE", reason=reason) from problem
