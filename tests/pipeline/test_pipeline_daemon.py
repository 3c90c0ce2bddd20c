"""Spark's Python processes: what they load, and what is collected after each piece of their work."""

from __future__ import annotations

import subprocess
import sys

from nadi.pipeline import daemon

PLANNING = """
import gc
from nadi.pipeline.outputs.sink import AppSink
from nadi.pipeline.spec import AppSpec

sink = AppSink({"spec": AppSpec("A", "", "").to_json(), "jvm": "1"})
kept, counts = [], [gc.get_freeze_count()]
for _ in range(5):
    sink.streamWriter(None, False)
    counts.append(gc.get_freeze_count())
    kept.append([[] for _ in range(1_000)])
print(*counts)
"""


def test_a_process_that_plans_writes_keeps_what_is_in_memory_out_of_later_collections() -> None:
    done = subprocess.run([sys.executable, "-c", PLANNING], capture_output=True, text=True, check=True)
    before, *counts = map(int, done.stdout.split())
    assert before == 0
    assert counts[0] > 10_000  # what the imports have made
    assert counts[0] < counts[1] < counts[2] == counts[3] == counts[4]  # the first three pieces of work, no more


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


def test_processes_that_only_make_the_source_or_sink_of_a_query_load_little() -> None:
    found = _loaded("nadi.pipeline.inputs.source nadi.pipeline.outputs.sink")
    assert "pyspark" in found
    assert not found & {"nadi.plan", "nadi.lang", "nadi.kernel", "pyarrow", "pandas", "sqlalchemy"}


def test_neither_hosts_nor_tasks_load_pandas_or_a_library_for_databases_before_an_app_needs_it() -> None:
    found = _loaded(f"{' '.join(daemon.PRELOADED)} nadi.pipeline.executor.host nadi.pipeline.cutting.cutmaker")
    assert {"nadi.pipeline.executor.hosted", "pyarrow"} <= found
    assert not found & {"sqlalchemy", "pandas"}


def test_what_the_daemon_has_loaded_is_out_of_the_collections_of_its_workers() -> None:
    code = "import gc\nfrom nadi.pipeline import daemon\ndaemon.preload()\nprint(gc.get_freeze_count(), len(gc.get_objects()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    frozen, left = map(int, done.stdout.split())
    assert frozen > 50_000
    assert left < 1_000
