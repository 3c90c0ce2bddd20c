"""The executor host: a long-lived process beside an executor's JVM that holds kernels, inputs and sinks.

Started by whoever needs it first (`nadi.pipeline.hosting.hostclient`) as `python -m nadi.pipeline.executor.host <folder> <index> <JVM pid>`; it ends when
the JVM is gone. Standard output and error are its log. This module takes the host's place; it imports little, since several may start the same host at a time,
and all but one of them end at once. What a host does is in `hostserver`.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from nadi.pipeline.hosting.lane import COORDINATOR, LaneClient, Op, encode_hello
from nadi.pipeline.hosting.standby import HANDED_WITHIN, STANDBY


def main(arguments: Sequence[str]) -> int:
    """Serve until the JVM is gone; 1 where another host already serves this place."""
    folder, jvm = Path(arguments[0]), int(arguments[2])
    if arguments[1] != STANDBY:
        return _be(folder, int(arguments[1]), jvm, 0.0)
    from nadi.pipeline.executor.hostserver import stand_by

    index = stand_by()
    return 0 if index is None else _be(folder, index, jvm, HANDED_WITHIN)


def _be(folder: Path, index: int, jvm: int, within: float) -> int:
    with (folder / f"{index}.alive").open("a") as alive:
        if not _takes(alive, within):
            return 1
        alive.truncate(0)
        alive.write(str(os.getpid()))
        alive.flush()
        (folder / f"{index}.sock").unlink(missing_ok=True)
        known = _greet(folder / COORDINATOR, index)
        from nadi.pipeline.executor.hostserver import serve

        serve(folder, index, jvm)
    if known is not None:
        known.close()
    return 0


def _takes(place: IO[str], within: float) -> bool:
    """Whether this process has the place now. A host that has died has it for a moment longer than its connection to the node, which tells of its death: so who
    was told tries for some time."""
    until = time.monotonic() + within
    while True:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)


def _greet(address: Path, index: int) -> LaneClient | None:
    """Tell the coordinator at this socket that host `index` is up: it knows that it is not any more when the connection ends, so that is to be kept. None where
    there is no coordinator: the JVM is not a node's, or is not on its machine."""
    try:
        coordinator = LaneClient(address)
    except OSError:
        return None
    try:
        coordinator.tell(Op.HELLO, encode_hello(index, os.getpid()))
    except OSError:
        coordinator.close()
        return None
    return coordinator


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
