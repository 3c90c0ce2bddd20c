"""Which processes of a run use the processors: what the system has counted for each of them."""

from __future__ import annotations

import os
from pathlib import Path

KINDS = (
    ("guards", "nadi.io.guard"),  # its command line names what it guards, too
    ("Spark (JVM)", "SparkSubmit"),  # its command line names our daemon, too
    ("broker", "kafka.Kafka"),
    ("hosts", "nadi.pipeline.executor.host"),
    ("load", "bench.latency_load"),
    ("floor", "bench.floor"),
    ("cuts (source process)", "python_streaming_source_runner"),
    ("tasks (Python workers)", "nadi.pipeline.daemon"),
    ("planning, commit (Python)", "pyspark.daemon"),
    ("nats-server", "nats-server"),
    ("supervisor", "bench.node"),
    ("supervisor", "-m nadi run"),
    ("worker", "-m nadi worker"),
)
"""What is in the command line of each kind; the first that fits counts."""
OTHERS = "others"
_TICK = os.sysconf("SC_CLK_TCK")

Used = dict[int, tuple[str, float]]
"""Kind and processor seconds of each process, children that it waited for included."""


def processor_seconds(folder: Path) -> Used:
    """The processes of a run: its folder is in their command line or environment."""
    mark = os.fsencode(folder)
    found: Used = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            if mark not in words and mark not in (path / "environ").read_bytes():
                continue
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        found[int(path.name)] = (
            kind_of(words.decode(errors="replace").replace("\0", " ")),
            sum(map(int, fields[11:15])) / _TICK,
        )
    return found


def kind_of(command: str) -> str:
    """
    >>> kind_of("python -m nadi.pipeline.executor.host /tmp/x 0 12"), kind_of("bash")
    ('hosts', 'others')
    """
    return next((kind for kind, word in KINDS if word in command), OTHERS)


def shares(before: Used, after: Used, seconds: float) -> dict[str, float]:
    """Cores that each kind kept busy on average; what a process did that has ended meanwhile is not known.

    >>> shares({1: ("hosts", 1.0), 2: ("load", 9.0)}, {1: ("hosts", 2.0), 3: ("hosts", 1.0)}, 4.0)["hosts"]
    0.5
    """
    found = dict.fromkeys([*(kind for kind, _ in KINDS), OTHERS], 0.0)
    for pid, (kind, used) in after.items():
        found[kind] += used - before.get(pid, (kind, 0.0))[1]
    return {kind: round(used / seconds, 3) for kind, used in found.items()}
