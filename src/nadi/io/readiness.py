"""Waiting for sockets and process descriptors, whatever their numbers: a node of many apps has more open files than `select` can count."""

from __future__ import annotations

import math
import os
import select
from collections.abc import Sequence
from io import FileIO
from typing import Protocol, TypeVar


class HasFileno(Protocol):
    """What the system can wait for."""

    def fileno(self) -> int: ...


F = TypeVar("F", bound=HasFileno | int)


def end_of(process: int) -> FileIO | None:
    """What becomes readable when a process has ended, even if nobody has waited for it yet; None where the system has no such thing, or none to spare.

    Errors: ProcessLookupError where it has ended and was waited for.
    """
    try:
        return FileIO(os.pidfd_open(process))
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


def readable(files: Sequence[F], within: float | None = None) -> list[F]:
    """Those that can be read, or whose other side is gone, once there are any; none after so many seconds (None: never).

    >>> import socket
    >>> here, there = socket.socketpair()
    >>> readable([here, there], 0.0)
    []
    >>> _sent = there.send(b"x")
    >>> readable([here, there]) == [here]
    True
    >>> here.close(); there.close()
    """
    waiting = select.poll()
    for file in files:
        waiting.register(_number(file), select.POLLIN)
    found = {number for number, _event in waiting.poll(None if within is None else math.ceil(within * 1000))}
    return [file for file in files if _number(file) in found]


def _number(file: HasFileno | int) -> int:
    return file if isinstance(file, int) else file.fileno()
