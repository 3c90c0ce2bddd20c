"""Functions of all namespaces, with nulls and with values that they refuse; their aggregators and stream functions."""

from __future__ import annotations

import random

from families.expressions import TYPES, expression
from families.inputs import COLUMNS, NUMBERS, Made, steps

FAULTY = f"@OnError(action='STREAM') define stream R ({COLUMNS}); "
FAULTS = " @info(name='faults') from !R select a, b, d insert into Faults;"


def functions(r: random.Random) -> Made:
    kinds = [r.choice([*TYPES, "object"]) for _ in range(r.choice([1, 1, 2, 3]))]
    items = ", ".join(f"{expression(r, kind, r.choice([1, 1, 2]))} as p{at}" for at, kind in enumerate(kinds))
    condition = f"[{expression(r, 'bool')}]" if r.random() < 0.2 else ""
    query = f"@info(name='q') from R{condition} select d, {items} insert into Out;"
    return Made(FAULTY + query + FAULTS, steps(r, streams="R"), queries=("q", "faults"), faults=True)


AGGREGATORS = (
    "math:percentile(d, 50.0)",
    "math:percentile(d, 10.0)",
    "str:groupConcat(b)",
    "str:groupConcat(b, '-')",
    "str:groupConcat(b, '-', true, 'DESC')",
    "str:groupConcat(b, ',', false, 'ASC')",
    "sizeOfSet(unionSet(createSet(b)))",
    "sum({n})",
    "avg({n})",
    "stdDev({n})",
    "min({n})",
    "max({n})",
    "count()",
    "count({o})",
    "distinctCount({o})",
    "minForever({n})",
    "maxForever({n})",
)
WINDOWS = (
    "length(3)",
    "lengthBatch(3)",
    "time(250)",
    "timeBatch(250)",
    "batch()",
    "session(250 milliseconds)",
    "timeLength(300, 3)",
    "length(1)",
)


def aggregators(r: random.Random) -> Made:
    """Aggregators of expressions, and expressions of aggregators."""
    items = []
    for at in range(r.choice([1, 2])):
        text = r.choice(AGGREGATORS).format(n=r.choice(NUMBERS), o=r.choice("abcdef"))
        if text.startswith(("sum", "avg", "min(", "max(", "stdDev")) and r.random() < 0.5:
            kind = r.choice(["int", "long", "float", "double"])
            text = r.choice(
                [
                    f"{text.split('(')[0]}({expression(r, kind, 1)})",
                    f"ifThenElse({text} > 2.0, 'much', 'little')",
                    f"({text} / count())",
                    f"coalesce({text}, {text})",
                ]
            )
        items.append(f"{text} as p{at}")
    window = "#window." + r.choice(WINDOWS) if r.random() < 0.8 else ""
    shared = any(
        text in item for item in items for text in ("groupConcat", "percentile")
    )  # in Siddhi all groups share their state
    grouped = " group by " + r.choice(["b", "a", "b, f", "f"]) if r.random() < 0.5 and not shared else ""
    having = f" having {r.choice(['p0 is null', 'not (p0 is null)'])}" if r.random() < 0.1 else ""
    out = r.choice([" insert", " insert all events", " insert expired events"])
    query = f"@info(name='q') from R{window} select b, {', '.join(items)}{grouped}{having}{out} into Out;"
    return Made(FAULTY + query + FAULTS, steps(r, streams="R"), queries=("q", "faults"), faults=True)


STREAM_FUNCTIONS = (
    "str:tokenize(str:concat(b, ',', b), ',', true)",
    "str:tokenize(b, 'y')",
    "pol2Cart(c, c)",
    "log('seen')",
)


def stream_functions(r: random.Random) -> Made:
    """Stream functions between filters, before and behind a window. To `tokenize` events come one by one, so not behind a window: the last version of the
    extension on Maven Central, 5.0.5, loses some of events that come together, which 5.0.6 has mended as nadi has."""
    parts = ["#" + r.choice(STREAM_FUNCTIONS)]
    if r.random() < 0.5:
        place = 1 if "tokenize" in parts[0] else r.randrange(2)
        parts.insert(place, "#window." + r.choice(WINDOWS))
    if r.random() < 0.5:
        parts.insert(r.randrange(len(parts) + 1), f"[{expression(r, 'bool', 1)}]")
    select = r.choice(["select *", "select b, count() as n group by b", "select a, b, sum(a) as n"])
    out = r.choice([" insert", " insert all events"])
    query = f"@info(name='q') from R{''.join(parts)} {select}{out} into Out;"
    return Made(FAULTY + query + FAULTS, steps(r, streams="R", chunks=(0,)), queries=("q", "faults"), faults=True)
