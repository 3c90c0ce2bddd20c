"""How much memory a host can take: where a kernel fills memory, it meets a MemoryError before the system kills whoever has most.

The limit is Linux's on the data of a process (RLIMIT_DATA), which holds wherever memory is taken, in Python, NumPy or Arrow. It counts what is only reserved,
too: Arrow reserves 1 GB at a time, each thread 8 MB for its stack. RESERVED is for that. Beyond it a host may take twice what is meant for it
(`nadi.host.memory`): a base that is made beside the work may hold as much again, and who is a little above has a warning.
"""

from __future__ import annotations

import resource
import sys

RESERVED = 2_000  # MB


def data_limit(meant: int) -> int:
    """How many bytes of data a host may have for which so many MB are meant.

    >>> data_limit(500)
    3000000000
    """
    return (2 * meant + RESERVED) * 1_000_000


def limit_memory(meant: int) -> None:
    """Have this process find no more memory beyond the limit for `meant` MB (0: no limit). A larger limit replaces a smaller one: all apps of a node bring the
    same. What the system allows at most stays."""
    if not meant or sys.platform != "linux":
        return
    now, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = data_limit(meant) if most == resource.RLIM_INFINITY else min(data_limit(meant), most)
    if now == resource.RLIM_INFINITY or now < wanted:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))
