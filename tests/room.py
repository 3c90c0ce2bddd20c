"""Runs pytest in one piece of memory for Python's frames.

Python 3.11 takes memory for frames in pieces of 16 KB, and gives a piece back as soon as its first frame returns. Where the end of a piece falls into a loop,
each call of that loop asks the system for memory: a fifth of what compiling a loop below hypothesis below pytest took. What a frame has at its end is room for
those that it calls; the one that calls everything has much.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

ROOM = 70_000
"""Words of eight bytes: the piece is the next power of two, and the rest of it, half a megabyte, is for others."""


def _with_room(call: Callable[[], object]) -> object:
    return call()


_with_room.__code__ = _with_room.__code__.replace(co_stacksize=ROOM)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> object:
    """The loops of the other plugins."""
    loop = session.config.pluginmanager.subset_hook_caller("pytest_runtestloop", [sys.modules[__name__]])
    return _with_room(lambda: loop(session=session))
