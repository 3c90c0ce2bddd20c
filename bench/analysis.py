"""From what a node and its hosts have noted to figures: pure, no processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.events import Ints
from bench.plan import Batch

FIRST = 3  # batches that are left out at the begin; the last one is left out, too
HOST_PHASES = ("read", "decode", "spread", "kernel", "state", "encode", "write", "commit")
"""What the hosts do in a batch. `spread` is what is left of reading: buckets, Arrow, handing over; `state` is making deltas and bases and counting entries."""
SPARK_PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
_STATE = ("delta", "base", "size", "load")


class Note(msgspec.Struct, frozen=True):
    """A timed call: phase, begin (s), length (s), events, bytes."""

    p: str
    t: float
    d: float
    events: int = 0
    bytes: int = 0


class BatchFigures(msgspec.Struct, frozen=True):
    """A batch: `ms` is its length, `spark` Spark's phases, `hosts` the phases in the hosts (time in which at least one host was in it), `rest` the time
    in which no host did anything. Bytes read, written to the sink, and written to the state."""

    id: int
    begin: int
    events: int
    ms: int
    spark: dict[str, int]
    hosts: dict[str, float]
    rest: float
    bytes_in: int
    bytes_out: int
    state_bytes: int


class Spread(msgspec.Struct, frozen=True):
    """Median, least and greatest of some values, and how many there were."""

    median: float
    min: float
    max: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    """
    >>> spread([3, 1, 2])
    Spread(median=2.0, min=1.0, max=3.0, count=3)
    """
    if not values:
        return Spread(0.0, 0.0, 0.0, 0)
    return Spread(float(np.median(values)), float(min(values)), float(max(values)), len(values))


def read_notes(folder: Path) -> list[Note]:
    """All notes of the hosts of a node, by begin. A torn last line (a host that was killed) is left out."""
    decode = msgspec.json.Decoder(Note).decode
    found: list[Note] = []
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_bytes().split(b"\n")[:-1]
        found.extend(decode(line) for line in lines)
    return sorted(found, key=lambda n: n.t)


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """How much time some intervals (begin, end) cover together.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def figures(batches: Sequence[Batch], notes: Sequence[Note]) -> list[BatchFigures]:
    """Each batch with what the hosts did in it."""
    begins = np.array([n.t * 1000 for n in notes])
    made = []
    for batch in batches:
        length = batch.ms.get("triggerExecution", 0)
        # Spark's begin is cut to whole ms
        low, high = np.searchsorted(begins, [batch.begin, batch.begin + length + 1])
        made.append(_figures(batch, length, notes[low:high]))
    return made


MARKS = (
    ("offset logged", "", False),
    ("first host reads", "reading", False),
    ("last one has read", "reading", True),
    ("first kernel begins", "kernel", False),
    ("last one ends", "kernel", True),
    ("first sink writes", "write", False),
    ("last one has written", "write", True),
    ("batch ends", "", True),
)
"""Moments within a batch: label, the phase in the hosts that begins or ends there."""


def timeline(batches: Sequence[BatchFigures], notes: Sequence[Note]) -> dict[str, Spread]:
    """When, in ms since the begin of a batch, it comes to each of the MARKS."""
    begins = np.array([n.t * 1000 for n in notes])
    found: dict[str, list[float]] = {label: [] for label, _, _ in MARKS}
    for batch in batches:
        low, high = np.searchsorted(begins, [batch.begin, batch.begin + batch.ms + 1])
        for label, phase, last in MARKS:
            of_phase = [n for n in notes[low:high] if n.p == phase]
            if of_phase:
                moments = [1000 * (n.t + n.d * last) - batch.begin for n in of_phase]
                found[label].append(max(moments) if last else min(moments))
            elif not phase:
                before = sum(batch.spark[name] for name in ("latestOffset", "queryPlanning", "walCommit"))
                found[label].append(float(batch.ms if last else before))
    return {label: spread(values) for label, values in found.items() if values}


def _figures(batch: Batch, length: int, mine: Sequence[Note]) -> BatchFigures:
    def wall(*phases: str) -> float:
        return 1000 * covered((n.t, n.t + n.d) for n in mine if n.p in phases)

    def size(phase: str) -> int:
        return sum(n.bytes for n in mine if n.p == phase)

    hosts = {name: wall(name) for name in HOST_PHASES if name not in ("spread", "state")}
    hosts["spread"] = max(0.0, wall("reading") - wall("read", "decode"))
    hosts["state"] = wall(*_STATE)
    busy = wall(*{n.p for n in mine})
    return BatchFigures(
        batch.id,
        batch.begin,
        batch.events,
        length,
        {name: batch.ms.get(name, 0) for name in SPARK_PHASES},
        {name: round(hosts[name], 3) for name in HOST_PHASES},
        round(max(0.0, length - busy), 3),
        size("read"),
        size("write"),
        size("delta") + size("base"),
    )


def steady(batches: Sequence[BatchFigures]) -> list[BatchFigures]:
    """The batches that count: not the first ones, in which Spark and Java warm up, nor the last, which is what was left. Of few, all but the first."""
    return list(batches[FIRST:-1] if len(batches) > FIRST + 2 else batches[1:] or batches)


def rate(batches: Sequence[BatchFigures]) -> float:
    """Events a second from the begin of the first of these batches to the end of the last one, pauses between them included."""
    if not batches:
        return 0.0
    seconds = (batches[-1].begin + batches[-1].ms - batches[0].begin) / 1000
    return sum(b.events for b in batches) / seconds if seconds > 0 else 0.0


def batch_summary(batches: Sequence[BatchFigures]) -> dict[str, Any]:
    """Medians with least and greatest over some batches."""
    return {
        "batches": len(batches),
        "batch_events": spread([b.events for b in batches]),
        "batch_ms": spread([b.ms for b in batches]),
        "events_per_s_of_batch": spread([1000 * b.events / b.ms for b in batches if b.ms]),
        "spark_ms": {name: spread([b.spark[name] for b in batches]) for name in SPARK_PHASES},
        "hosts_ms": {name: spread([b.hosts[name] for b in batches]) for name in HOST_PHASES},
        "rest_ms": spread([b.rest for b in batches]),
        "bytes_in": spread([b.bytes_in for b in batches]),
        "bytes_out": spread([b.bytes_out for b in batches]),
        "state_bytes_written": spread([b.state_bytes for b in batches]),
    }


def latencies_us(stamps: Ints, came: Ints, counted: tuple[int, int]) -> Ints:
    """Latencies (µs) of the rows whose event was sent in the range that counts."""
    inside = (stamps >= counted[0]) & (stamps < counted[1])
    found: Ints = came[inside] - stamps[inside]
    return found


def percentiles(latencies: Ints) -> dict[str, float]:
    """In ms; empty where there are none."""
    if not len(latencies):
        return {}
    wanted = {"min": 0, "p50": 50, "p90": 90, "p99": 99, "p99.9": 99.9, "max": 100}
    return {name: round(float(np.percentile(latencies, p)) / 1000, 2) for name, p in wanted.items()}
