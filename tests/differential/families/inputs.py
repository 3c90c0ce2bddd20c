"""What comes in: random events of the streams S and T, with a tick at each step of time, on-demand queries and pauses between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ATTRIBUTES = {"a": "int", "b": "string", "c": "double", "d": "long", "e": "float", "f": "bool"}
COLUMNS = ", ".join(f"{name} {kind}" for name, kind in ATTRIBUTES.items())
NUMBERS = ("a", "c", "d", "e")
STEP = 50
"""Milliseconds: all times are multiples, so that no timer is late on either side."""
START = 1_000_000

Row = list[Any]
Step = list[Any]


@dataclass(frozen=True)
class Made:
    """An app behind the definitions of Tick, S and T, what to watch, and what comes in."""

    app: str
    events: list[Step]
    queries: Sequence[str] = ()
    streams: Sequence[str] = ()
    unordered: bool = False
    """Whether rows come in the order of a hash table on Siddhi."""
    faults: bool = False
    """Whether failures are what the case is about: elsewhere a case in which Siddhi fails does not count."""

    def watched(self) -> dict[str, Any]:
        marks = {name: True for name in ("unordered", "faults") if getattr(self, name)}
        return {"queries": list(self.queries), "streams": list(self.streams), **marks}


def row(r: random.Random, ts: int, nulls: float) -> Row:
    """One event of S or T. `d` is a time, never null and never before the clock."""
    values: Row = [
        r.choice([0, 1, 2, 2, 3, 4, -1, 2147483647 if r.random() < 0.05 else 1]),
        r.choice("xyz"),
        r.choice([0.0, 1.5, -2.25, 3.0, 1e10 if r.random() < 0.1 else 2.5]),
        ts + r.choice([0, 0, 0, STEP]),
        r.choice([0.5, 1.25, -3.0, 2.0]),
        r.random() < 0.5,
    ]
    return [None if at != 3 and r.random() < nulls else value for at, value in enumerate(values)]


def steps(
    r: random.Random,
    *,
    streams: str = "SST",
    nulls: Sequence[float] = (0, 0.1, 0.3),
    chunks: Sequence[float] = (0, 0.3),
    gaps: Sequence[int] = (0, 0, 1, 1, 2, 3, 8),
    lengths: Sequence[int] = (8, 15, 30),
    between: Callable[[random.Random, int], list[Step]] | None = None,
    make: Callable[[random.Random, int, float], Row] = row,
) -> list[Step]:
    """Chunks of events with ticks between them. `between` may put steps behind each chunk."""
    found: list[Step] = []
    ts, share, several = START, r.choice(nulls), r.choice(chunks)
    for _ in range(r.choice(lengths)):
        later = ts + STEP * r.choice(gaps)
        found += [["Tick", at, [[0]]] for at in range(ts + STEP, later + 1, STEP)]
        ts = later
        size = r.choice([2, 3]) if r.random() < several else 1
        found.append([r.choice(streams), ts, [make(r, ts, share) for _ in range(size)]])
        if between is not None:
            found += between(r, ts)
    return found
