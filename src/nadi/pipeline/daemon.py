"""The Python daemon of the executors: PySpark's own with three changes, made before anything is forked.

Batches of `nadi run` need no Python of Spark's. Backtests do, and apps over DataFrames where the session is nadi's own.

- It notes the process id of its Java virtual machine, to which the executor hosts belong; after the daemon's death its workers could no
  longer find it.
- PySpark collects garbage after every task, with all of pyarrow in memory: 30–150 ms each time. Freezing what the first tasks left
  behind makes every later collection take 0.1 ms.
- It imports what workers need, once for all that are forked from it: each took a second of processor time for that, and all start together.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

FREEZING_TASKS = 3
PRELOADED = ("pyspark.sql.pandas.serializers", "nadi.pipeline.dataframes")
"""What tasks import. The one thread that this starts, of Arrow's allocator, begins again in a forked process."""


class FreezingCollector:
    """Stands for the module `gc` in `pyspark.daemon`, which only calls `collect`."""

    def __init__(self) -> None:
        self._tasks = 0

    def collect(self) -> int:
        """Collect, and keep what the first tasks leave in memory out of later collections."""
        found = gc.collect()
        if self._tasks < FREEZING_TASKS:
            self._tasks += 1
            gc.freeze()
        return found


def preload() -> None:
    """Import what workers need, and keep it out of their collections."""
    # numpy's threads would be lost in a fork, and nothing here multiplies matrices
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in PRELOADED:
        import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Run the daemon; Spark starts it as `python -m nadi.pipeline.daemon pyspark.worker`."""
    os.environ["NADI_JVM_PID"] = str(os.getppid())
    from pyspark import daemon

    preload()
    daemon.gc = FreezingCollector()
    daemon.manager()


if __name__ == "__main__":
    main()
