"""Partitions: output rates, inner streams, several queries, tables and windows from within, keys that are purged."""

from __future__ import annotations

import random

from families.flows import OUTS, SUMS
from families.inputs import Made, Step, steps

KEYS = (
    "b of S, b of T",
    "a of S, a of T",
    "b of S",
    "a < 2 as 'low' or a >= 2 as 'high' of S, b of T",
    "a >= 1 as 'one' or a >= 2 as 'two' of S",
)
WINDOWS = (
    "length(2)",
    "lengthBatch(2)",
    "length(1)",
    "sort(2, d)",
    "time(200)",
    "timeLength(300, 2)",
    "externalTime(d, 200)",
    "externalTimeBatch(d, 200)",
    "lengthBatch(3)",
    "frequent(2, b)",
    "delay(100)",
)
RATES = (
    " output every 2 events",
    " output every 3 events",
    " output first every 2 events",
    " output first every 3 events",
    " output last every 2 events",
    " output last every 3 events",
    " output all every 2 events",
    " output first every 300 milliseconds",
)


def _source(r: random.Random, stream: str = "S") -> str:
    condition = f"[{r.choice(['a > 0', 'f', 'not (b is null)', 'c != 2.5'])}]" if r.random() < 0.3 else ""
    return f"{stream}{condition}" + ("#window." + r.choice(WINDOWS) if r.random() < 0.7 else "")


def _select(r: random.Random) -> str:
    if r.random() < 0.3:
        return "select a, b, c"
    return f"select a, b, {r.choice(SUMS)}" + (f" group by {r.choice('ab')}" if r.random() < 0.5 else "")


def rated(r: random.Random) -> Made:
    """Output rates inside partitions."""
    query = f"from {_source(r)} {_select(r)}{r.choice(RATES)}{r.choice(OUTS)} into Out;"
    return Made(f"partition with ({r.choice(KEYS)}) begin {query} end;", steps(r), streams=("Out",))


def inner(r: random.Random) -> Made:
    """Several queries in a partition, with inner streams, tables, named windows and joins."""
    head = "define table U (a int, b string); define window W (a int, b string, c double, d long) length(3); "
    queries = [f"from {_source(r)} select a, b, c, d, e, f{r.choice(OUTS)} into #I;"]
    queries.append(
        r.choice(
            [
                f"from {_source(r, '#I')} {_select(r)}{r.choice(OUTS)} into Out;",
                f"from #I#window.length(2) as x join S#window.{r.choice(WINDOWS[:5])} as y on x.a == y.a select x.a as p, y.b as q insert into Out;",
                "from every e1=#I -> e2=S[a > e1.a] select e1.a as p, e2.b as q insert into Out;",
                "from every e1=#I, e2=#I select e1.a as p, e2.b as q insert into Out;",
                "from #I select a, b update or insert into U on U.b == b;",
                "from #I select a, b, c, d insert into W;",
                f"from #I select a + 1 as a, b, c, d, e, f insert into #J; from {_source(r, '#J')} {_select(r)} insert into Out;",
            ]
        )
    )
    queries.append(
        r.choice(
            [
                "from S join U on S.b == U.b select S.a as p, U.a as q insert into Out2;",
                "from S join W on S.b == W.b select S.a as p, W.a as q insert into Out2;",
                "from T select a, b insert into Out2;",
                "from T select a, b, c, d, e, f insert into #I;",
                f"from T#window.length(2) join {_source(r)} on T.a >= S.a select T.a as p, S.b as q insert into Out2;",
                "from S[S.b == U.b in U] select a, b insert into Out2;",
                f"from {_source(r)} {_select(r)}{r.choice(RATES[:7])} insert into Out2;",
            ]
        )
    )
    after = r.choice(
        [
            "",
            "from Out2#window.length(2) select count() as n insert into Out3;",
            "from W select sum(a) as n insert into Out3;",
        ]
    )
    watched = [name for name in ("Out", "Out2", "Out3") if f"into {name};" in " ".join([*queries, after])]
    return Made(
        f"{head}partition with ({r.choice(KEYS[:4])}) begin {' '.join(queries)} end; {after}", steps(r), streams=watched
    )


def purged(r: random.Random) -> Made:
    """Keys without events for long lose their state. Siddhi purges by the machine's clock, at most once in a second: a pause lets it."""
    query = f"from S#window.{r.choice(WINDOWS[:4])} select b, {r.choice(SUMS)}{r.choice(OUTS[:3])} into Out;"
    if r.random() < 0.4:
        query = r.choice(
            [
                "from S select b, sum(a) as n insert into Out;",
                "from every e1=S[a > 1] -> e2=S[a < 2] select e1.a as n, e2.a as m insert into Out;",
                "from S select b, count() as n output every 2 events insert into Out;",
                "from e1=S -> e2=S select e1.a as n, e2.a as m insert into Out;",
            ]
        )
    app = f"@purge(enable='true', interval='1 sec', idle.period='1 sec') partition with (b of S) begin {query} end;"

    return Made(app, _with_long_pauses(r, steps(r, streams="S", gaps=(0, 0, 1), lengths=(8, 12))), streams=("Out",))


def _with_long_pauses(r: random.Random, events: list[Step]) -> list[Step]:
    """Once time jumps by more than keys may be idle."""
    at = r.randrange(2, len(events))
    later = [[name, ts + 5000, rows] for name, ts, rows in events[at:]]
    return [*events[:at], ["Tick", events[at - 1][1] + 4000, [[0]]], ["Pause", 1100, []], *later]
