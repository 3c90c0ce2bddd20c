"""The clock of playback jumps, stands still and is left behind: what keys, windows and patterns had to do in the meantime is done at once."""

from __future__ import annotations

import random

from families.inputs import START, STEP, Made, Step, row, steps

WINDOWS = (
    "session(200 milliseconds, b)",
    "session(300 milliseconds, b)",
    "session(200 milliseconds)",
    "time(200)",
    "timeBatch(200)",
    "timeLength(300, 2)",
    "delay(100)",
)
SELECTIONS = ("b, count() as n", "b, sum(a) as n group by b", "b, a, c", "count() as n, max(c) as m")
OUTS = ("insert all events", "insert expired events", "insert")


def jumps(r: random.Random) -> Made:
    """A window behind events of several keys, between which the clock jumps."""
    query = f"from S#window.{r.choice(WINDOWS)} select {r.choice(SELECTIONS)} {r.choice(OUTS)} into Out;"
    events: list[Step] = []
    later = 0
    for name, ts, rows in steps(r, streams="S", gaps=(0, 0, 1, 2), lengths=(8, 12)):
        if r.random() < 0.3:
            later += STEP * r.choice((3, 7, 20, 90))
        if name != "Tick" or r.random() < 0.2:  # without its ticks the clock moves with the events
            events.append([name, ts + later, rows])
    events.append(["Tick", events[-1][1] + 100 * STEP, [[0]]])
    return Made(query, events, streams=("Out",))


PATTERNS = (
    "every e1=S -> e2=T{within}",
    "every e1=S -> e2=S[b == e1.b]{within}",
    "every e1=S -> not T for {wait}{within}",
    "e1=S -> not S[a > e1.a] for {wait}",
    "every e1=S and e2=T{within}",
    "every e1=S -> not T for {wait} and e2=S{within}",
    "every e1=S<2:3> -> e2=T{within}",
)
WITHINS = ("", " within 200 milliseconds", " within 500 milliseconds", " within 5 sec")
WAITS = ("100 milliseconds", "250 milliseconds", "2 sec")
JUMPS, BACK = (1, 1, 2, 3, 20, 60), (1, 2, 6, 40)
"""In steps. Siddhi is busy for minutes where much has to be caught up with."""


def patterns_that_jump(r: random.Random) -> Made:
    """A pattern, in a partition or not, between whose events the clock jumps; some events are late."""
    pattern = r.choice(PATTERNS).format(wait=r.choice(WAITS), within=r.choice(WITHINS))
    query = f"from {pattern} select e1.a as p0, e1.b as p1 insert into Out;"
    events: list[Step] = []
    clock, ahead = START, r.choice((0.2, 0.5))
    for _ in range(r.choice((6, 10, 16))):
        kind = r.random()
        clock += STEP * r.choice(JUMPS) if kind < ahead else 0
        at = max(START, clock - STEP * r.choice(BACK)) if kind > 0.85 else clock
        stream = r.choice(("S", "S", "T", "Tick"))
        count = r.choice((1, 1, 1, 2))
        events.append([stream, at, [[0]] if stream == "Tick" else [row(r, at, 0.1) for _ in range(count)]])
    events.append(["Tick", clock + 200 * STEP, [[0]]])
    if r.random() < 0.25:
        return Made(f"partition with (b of S, b of T) begin {query} end;", events, streams=("Out",))
    return Made(f"@info(name='q') {query}", events, queries=("q",))
