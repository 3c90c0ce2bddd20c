"""Waits for what the system tells by a descriptor: the end of a process, a request that its client left."""

from __future__ import annotations

import select
from typing import Protocol


class HasFileno(Protocol):
    def fileno(self) -> int: ...


def is_readable(source: int | HasFileno, seconds: float) -> bool:
    """Whether something can be read, now or within this time.

    It uses `poll`, as `select` refuses descriptors from 1024 on, and a process that runs thousands of tests gets there.
    """
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
