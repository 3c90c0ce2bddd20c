"""Spark's Python processes: what they load, and what is collected after each piece of their work."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

LOADED = """
import sys
from importlib import import_module

for name in sys.argv[1].split():
    import_module(name)
print(*sorted({name.partition(".")[0] if not name.startswith("nadi.") else name for name in sys.modules}))
"""


def _loaded(modules: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOADED, modules], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_hosts_load_neither_spark_nor_pandas_nor_a_library_for_databases_before_an_app_needs_it() -> None:
    found = _loaded("nadi.pipeline.executor.hostserver nadi.pipeline.cutting.cutmaker")
    assert {"nadi.pipeline.executor.hosted", "pyarrow"} <= found
    assert not found & {"sqlalchemy", "pandas", "pyspark"}


def test_what_the_daemon_has_loaded_is_out_of_the_collections_of_its_workers() -> None:
    code = "import gc\nfrom nadi.pipeline import daemon\ndaemon.preload()\nprint(gc.get_freeze_count(), len(gc.get_objects()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    frozen, left = map(int, done.stdout.split())
    assert frozen > 50_000
    assert left < 1_000


COLLECTED = """
import gc
from nadi.pipeline.daemon import FREEZING_TASKS, FreezingCollector

collector, kept, counts = FreezingCollector(), [], []
for _ in range(FREEZING_TASKS + 2):
    kept.append([[] for _ in range(1_000)])
    collector.collect()
    counts.append(gc.get_freeze_count())
print(*counts)
"""


def test_what_the_first_tasks_leave_in_memory_is_out_of_later_collections() -> None:
    done = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, text=True, check=True)
    counts = [int(count) for count in done.stdout.split()]
    steps = [after - before for before, after in pairwise(counts)]
    assert counts[0] > 1_000
    assert [step >= 1_000 for step in steps] == [True, True, False, False]
