"""The clock of playback jumps: what several keys and windows had to do in the meantime is done at once."""

from __future__ import annotations

import random

from families.inputs import STEP, Made, Step, steps

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
