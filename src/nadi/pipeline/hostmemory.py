"""What is said of the memory that hosts hold."""

from __future__ import annotations

from collections.abc import Mapping

from nadi.errors import error


def memory_warnings(memory: Mapping[str, int], limit: int) -> tuple[str, ...]:
    """What is said of hosts that hold more than `limit` MB (0: no bound).

    >>> memory_warnings({"0": 5_000_000, "1": 2_000_000}, 3)[0].split("(")[0].strip()
    '[HOST_MEMORY] host 0 holds 5 MB of memory, 3 MB are meant for it'
    """
    over = {host: held // 1_000_000 for host, held in sorted(memory.items()) if limit and held > limit * 1_000_000}
    return tuple(str(error("HOST_MEMORY", host=host, held=held, limit=limit)) for host, held in over.items())
