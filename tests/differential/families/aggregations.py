"""Incremental aggregations: asked on demand and joined, with `within` and `per` of each kind."""

from __future__ import annotations

import random

from families.inputs import Made, Row, Step, steps

DURATIONS = (
    "sec ... year",
    "sec ... hour",
    "sec, min",
    "min ... day",
    "sec ... min",
    "hour, day",
    "day, month, year",
    "sec, day",
)
PER = {"sec": "seconds", "min": "minutes", "hour": "hours", "day": "days", "month": "months", "year": "years"}
ORDER = ("sec", "min", "hour", "day", "month", "year")
BASE = 1_496_289_950_000
"""2017-06-01 04:05:50 GMT."""
ITEMS = (
    "sum(a) as n0",
    "avg(c) as n1",
    "count() as n2",
    "min(e) as n3",
    "max(a) as n4",
    "distinctCount(b) as n6",
    "a as last",
    "(a * 2) as twice",
    "sum(d) as n7",
)


def _durations(text: str) -> list[str]:
    if "..." in text:
        first, last = (ORDER.index(name.strip()) for name in text.split("..."))
        return list(ORDER[first : last + 1])
    return [name.strip() for name in text.split(",")]


def _row(r: random.Random, ts: int, nulls: float) -> Row:
    """`g` is the time of the event: not always the latest one."""
    time = BASE + (ts - 1_000_000) * r.choice([1, 1, 20, 1000]) + r.choice([0, 0, 0, 1500, 61_000, -3000])
    values: Row = [
        r.choice([0, 1, 2, 3, -1]),
        r.choice("xyz"),
        r.choice([0.0, 1.5, -2.25, 3.0]),
        r.choice([0.5, 1.25, -3.0]),
    ]
    return [
        *(None if at != 1 and r.random() < nulls else value for at, value in enumerate(values)),
        r.choice([5, 7, 2_000_000_000]),
        time,
    ]


WIDE = ('"2017-**-** **:**:**"', f"{BASE - 100_000_000_000}L, {BASE + 100_000_000_000}L")


def _within(r: random.Random, finest: bool) -> str:
    """A range of time. What Siddhi holds in memory it compares with it by the finest duration, whatever is asked for: where it is a coarser one, all is wanted."""  # noqa: E501
    if not finest:
        return r.choice(WIDE)
    return r.choice(
        [
            f"{BASE - 100_000}L, {BASE + 100_000_000}L",
            f"{BASE}L, {BASE + 60_000}L",
            '"2017-06-** **:**:**"',
            '"2017-06-01 04:**:**"',
            '"2017-06-01 04:05:**"',
            '"2017-**-** **:**:**"',
            '"2017-06-01 00:00:00", "2017-06-02 00:00:00"',
            '"2017-06-01 09:35:** +05:30"',
            f"{BASE + 10_000}L, {BASE + 12_000}L",
            '"2017-06-01 04:05:52", "2017-06-01 04:06:10"',
        ]
    )


def aggregated(r: random.Random) -> Made:
    durations = r.choice(DURATIONS)
    grouped = r.choice(["", " group by b", " group by b"])
    items = r.sample(ITEMS, r.choice([1, 2, 3]))
    if grouped:
        items.insert(0, "b")
    by = r.choice([" aggregate by g", " aggregate by g", " aggregate by g", " aggregate"])
    finest = PER[_durations(durations)[0]]
    whole = any(
        item.startswith("avg") for item in items
    )  # Siddhi divides by the number of all events, those without a value among them
    head = (
        "define stream I (a int, b string, c double, e float, d long, g long); define stream Q (k string, p string); "
    )
    head += (
        f"@purge(enable='false') define aggregation G from I select {', '.join(items)}{grouped}{by} every {durations}; "
    )
    names = [item.split(" as ")[-1] for item in items]
    columns = ", ".join(f"G.{name} as {name}" for name in names)
    per = PER[r.choice(_durations(durations))]
    on = " on Q.k == G.b" if grouped and r.random() < 0.7 else ""
    join = r.choice(["join", "join", "left outer join"])
    query = f"@info(name='j') from Q {join} G{on} within {_within(r, per == finest)} per {per!r} select Q.k as k, {columns}, G.AGG_TIMESTAMP as at insert into Out;"  # noqa: E501
    if r.random() < 0.2:
        query = f"@info(name='j') from Q join G{on} within {_within(r, per == finest)} per {per!r} select Q.k as k, sum(G.{names[-1]}) as total, count() as n group by Q.k insert into Out;"  # noqa: E501

    def between(r: random.Random, ts: int) -> list[Step]:
        if r.random() > 0.4:
            return []
        per = PER[r.choice(_durations(durations))]
        where = f" on b == '{r.choice('xyz')}'" if grouped and r.random() < 0.4 else ""
        select = r.choice(
            [
                "",
                "",
                f" select AGG_TIMESTAMP, {names[-1]}",
                f" select {names[0]}, count() as n group by {names[0]}",
                f" select max({names[-1]}) as most",
            ]
        )
        return [
            r.choice(
                [
                    ["?", ts, f"from G{where} within {_within(r, per == finest)} per {per!r}{select}"],
                    ["Q", ts, [[r.choice("xyz"), per]]],
                ]
            )
        ]

    events = steps(
        r, streams="I", make=_row, between=between, lengths=(5, 10, 20), nulls=(0,) if whole else (0, 0.1, 0.3)
    )
    return Made(head + query, events, queries=("j",), unordered=True)
