"""How events flow: several queries on a stream, cycles, faults, triggers."""

from __future__ import annotations

import random

from families.expressions import expression
from families.inputs import COLUMNS, Made, steps

ALL = "select a, b, c, d, e, f"
WINDOWS = (
    "length(2)",
    "lengthBatch(2)",
    "time(200)",
    "timeBatch(200)",
    "batch()",
    "session(200 milliseconds)",
    "sort(2, d)",
    "timeLength(300, 2)",
    "delay(100)",
    "expression('count() <= 2')",
    "externalTimeBatch(d, 200)",
    "lengthBatch(3)",
)
SUMS = ("sum(a) as n", "count() as n", "max(c) as n, avg(a) as m", "min(e) as n", "distinctCount(b) as n")
RATES = (
    " output every 2 events",
    " output first every 2 events",
    " output last every 3 events",
    " output all every 2 events",
)
OUTS = (" insert", " insert", " insert all events", " insert expired events")


def _passes(r: random.Random, source: str, target: str) -> str:
    """A query that hands on whole events."""
    condition = f"[{expression(r, 'bool', 1)}]" if r.random() < 0.4 else ""
    window = "#window." + r.choice(WINDOWS) if r.random() < 0.5 else ""
    return f"from {source}{condition}{window} {ALL}{r.choice(OUTS)} into {target};"


def _sums(r: random.Random, source: str, target: str = "Out") -> str:
    window = "#window." + r.choice(WINDOWS) if r.random() < 0.6 else ""
    grouped = " group by b" if r.random() < 0.5 else ""
    rate = r.choice(RATES) if r.random() < 0.25 else ""
    return f"from {source}{window} select b, {r.choice(SUMS)}{grouped}{rate}{r.choice(OUTS)} into {target};"


def several(r: random.Random) -> Made:
    """Several queries on each stream of a small graph without cycles."""
    names, queries = ["S", "T"], []
    for at in range(r.choice([2, 3, 4])):
        target = r.choice([f"M{at}", *[name for name in names if name.startswith("M")]])
        # a stream takes events only of streams that came before it: no cycle
        sources = [
            name
            for name in names
            if name != target and (target not in names or names.index(name) < names.index(target))
        ]
        queries.append(_passes(r, r.choice(sources), target))
        if target not in names:
            names.append(target)
    for _ in range(r.choice([2, 3])):
        queries.append(_sums(r, r.choice(names)))
    if r.random() < 0.5:
        left, right = r.choice(names), r.choice(names)
        queries.append(
            f"from {left}#window.length(2) as x join {right}#window.{r.choice(WINDOWS[:4])} as y on x.b == y.b select x.a as n, y.a as m insert into Paired;"
        )
    r.shuffle(queries)
    return _made(r, queries, " ".join(f"define stream {name} ({COLUMNS});" for name in names[2:]) + " ")


def _made(r: random.Random, queries: list[str], head: str = "") -> Made:
    named = [f"@info(name='q{at}') " + query.replace("into Out;", f"into Out{at};") for at, query in enumerate(queries)]
    return Made(head + " ".join(named), steps(r), queries=[f"q{at}" for at in range(len(queries))])


def cycles(r: random.Random) -> Made:
    """Events that come back to the stream from which they are, until a filter stops them."""
    kind = r.random()
    step = "select a + 1 as a, b, c, d, e, f"
    if kind < 0.4:
        queries = [f"from S[a < {r.choice([2, 3])}] {step}{r.choice(OUTS[:2])} into S;", _sums(r, "S")]
    elif kind < 0.7:
        window = "#window." + r.choice(
            ["length(2)", "lengthBatch(2)", "time(200)", "timeBatch(200)", "delay(100)", "length(1)"]
        )
        queries = [
            f"from S[a < 3]{window} {step}{r.choice(OUTS)} into M;",
            f"from M[a < 4] {ALL} insert into S;",
            _sums(r, "M"),
        ]
    else:
        queries = [
            f"from S[a < 3] {step} insert into T;",
            f"from T[a < 2] {step} insert into S;",
            _sums(r, "T"),
            _sums(r, "S"),
        ]
    if r.random() < 0.3:
        queries.append(
            f"from {r.choice(['every ', ''])}e1=S -> e2=S[a > e1.a] select e1.a as n, e2.a as m insert into Found;"
        )
    r.shuffle(queries)
    return _made(r, queries, f"define stream M ({COLUMNS}); ")


BREAKS = (
    "str:charAt(b, a)",
    "str:substr(b, a)",
    "str:split(b, ',', a)",
    "str:repeat(b, a)",
    "math:log(c, a)",
    "str:unhex(b)",
    "math:conv(b, 16, 10)",
    "str:contains('x', b)",
    "str:equalsIgnoreCase(b, 'X')",
)


def faults(r: random.Random) -> Made:
    """Functions that raise, in filters, selections and behind windows, and what the fault stream gets."""
    queries = [_sums(r, "R")]
    for _ in range(r.choice([1, 2])):
        broken = r.choice(BREAKS)
        window = "#window." + r.choice(WINDOWS) if r.random() < 0.4 else ""
        queries.append(
            r.choice(
                [
                    f"from R{window} select a, b, {broken} as p insert into Out;",
                    f"from R[not ({broken} is null)]{window} {ALL} insert into M;",
                    f"from R{window}[not ({broken} is null)] select b, count() as n group by b insert into Out;",
                ]
            )
        )
    r.shuffle(queries)
    queries.append(
        r.choice(
            [
                "from !R select a, b, d insert into F;",
                "from !R#window.length(2) select b, count() as n group by b insert into F;",
                "from !R[a > 0] select a, b insert into F;",
            ]
        )
    )
    if r.random() < 0.5:
        queries.append(f"from M {ALL} insert into N;")
    head = f"@OnError(action='STREAM') define stream R ({COLUMNS}); define stream M ({COLUMNS}); "
    made = _made(r, queries, head)
    return Made(made.app, steps(r, streams="R"), queries=made.queries, faults=True)


def triggered(r: random.Random) -> Made:
    """A trigger at the start, which fires before any event."""
    head = "define trigger G at 'start'; define table U (a int, b string); "
    queries = [
        r.choice(
            [
                "from G select 1 as a, 'x' as b insert into U;",
                "from G select 2 as a, 'start' as b insert into U;",
                "from G#window.length(2) select count() as n insert into Out;",
                "from G select triggered_time as t insert into Out2;",
                "from G#window.time(100) select count() as n insert all events into Out;",
            ]
        )
        for _ in range(r.choice([1, 2]))
    ]
    queries.append(
        r.choice(
            [
                "from S join U on S.a > U.a select S.a as n, U.b as m insert into Out3;",
                "from S[U.b == b in U] select a, b insert into Out4;",
                "from every e1=G -> e2=S select e2.a as n insert into Out5;",
                "from e1=G, e2=S select e2.a as n insert into Out5;",
                "from G#window.length(1) join S#window.length(2) on S.a > 0 select S.a as n insert into Out6;",
                "from every e1=S -> not G for 200 milliseconds select e1.a as n insert into Out5;",
            ]
        )
    )
    return _made(r, queries, head)
