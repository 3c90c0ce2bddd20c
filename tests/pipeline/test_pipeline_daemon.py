"""Spark's Python processes: what is collected after each piece of their work."""

from __future__ import annotations

import subprocess
import sys

PLANNING = """
import gc
from nadi.pipeline.outputs.sinkstage import AppSink
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
