"""The Python daemon of the executors: PySpark's own with two changes, made before anything is forked.

- It notes the process id of its Java virtual machine, to which the executor hosts belong; after the daemon's death its workers could no
  longer find it.
- PySpark collects garbage after every task, with all of pandas and pyarrow in memory: 30–150 ms each time. Freezing what the first tasks left
  behind makes every later collection take 0.1 ms.
"""

from __future__ import annotations

import gc
import os

FREEZING_TASKS = 3


class FreezingCollector:
    """Stands for the module `gc` in `pyspark.daemon`, which only calls `collect`."""

    def __init__(self) -> None:
        self._tasks = 0

    def collect(self) -> int:
        found = gc.collect()
        self.freeze()
        return found

    def freeze(self) -> None:
        """Keep what is in memory out of later collections; not any more after the first tasks."""
        if self._tasks < FREEZING_TASKS:
            self._tasks += 1
            gc.freeze()


_COLLECTOR = FreezingCollector()


def freeze_first() -> None:
    """Freeze what is in memory, in the first calls of a process: for those that are forked by PySpark's own daemon.

    Planning a write and committing it are pieces of work of such processes, on the driver and in each batch; the two collections took 50 to 100 ms of
    processor time.
    """
    _COLLECTOR.freeze()


def main() -> None:
    """Run the daemon; Spark starts it as `python -m nadi.pipeline.daemon pyspark.worker`."""
    os.environ["NADI_JVM_PID"] = str(os.getppid())
    from pyspark import daemon

    daemon.gc = FreezingCollector()
    daemon.manager()


if __name__ == "__main__":
    main()
