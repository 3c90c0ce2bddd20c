"""Apps of the shapes that run on columns, and inputs that meet their corners: nulls, chunks of several events, timestamps off the clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from tests.generate.apps import Generated
from tests.generate.choices import COLUMNS, SCHEMA, Maker
from tests.generate.computed import NUMBERS, number, text, truth


def _filters(m: Maker) -> str:
    return "".join(f"[{truth(m)}]" for _ in range(m.number(0, 2)))


def _behind(m: Maker) -> str:
    """A filter after a window."""
    return m.one("", "", "", "[v > 1]", "[b]", "[k != 'a' and f > 1]")


def _order(m: Maker, names: Sequence[str]) -> str:
    """Order by, limit and offset."""
    made = ""
    if m.maybe():
        by = dict.fromkeys(m.of(names) for _ in range(m.number(1, 2)))
        made = " order by " + ", ".join(f"{name}{m.one('', ' asc', ' desc')}" for name in by)
    return made + m.one("", " limit 1", " limit 2", " limit 0") + m.one("", "", " offset 1")


def rate(m: Maker, kinds: Sequence[str] = ("", "all ", "first ", "last ")) -> str:
    """An output rate."""
    every = m.one("1 events", "2 events", "3 events", "5 events", "12 milliseconds", "40 milliseconds")
    return f" output {m.of(kinds)}every {every}"


def limited(m: Maker, source: str, target: str) -> str:
    """An output rate, order by, limit and offset over a query that looks at each event by itself, or over aggregators."""
    limit = rate(m)
    if m.maybe():
        order = _order(m, ("k", "b", "w", "x", "v")) if m.maybe() else ""
        chosen = f"k, b, {number(m, 'double')} as w, {number(m, 'float', 1)} as x, v"
        return f"from {source}{_filters(m)} select {chosen}{order}{limit if m.maybe() else ''} insert into {target};"
    windows = ("", "time(30 milliseconds)", "length(2)", *BATCHES)
    window = m.of([w for w in windows if not (m.prelude and "milli" in limit and w.startswith("timeBatch"))])
    if m.rarely() and not m.prelude:
        window, limit = "", f" output snapshot every {m.one(12, 40, 400)} milliseconds"
    grouped = m.maybe()
    shape = f"{'[l > -9L]' if '(l' in window else ''}#window.{window}" if window else ""
    order = _order(m, ("k", "n0", "n1")) if "snapshot" not in limit and m.maybe() else ""
    chosen = f"{_aggregate(m, 0)}, {_aggregate(m, 1)}, k{' group by k, v' if grouped else ''}"
    return f"from {source}{shape} select {chosen}{order}{limit} insert into {target};"


def plain(m: Maker, source: str, target: str) -> str:
    """A query without state; onto a stream with the common attributes where the target is no output."""
    if target.startswith("Mid"):
        chosen = m.one(COLUMNS, f"k, {number(m, 'int')} as v, l, f, d, b")
    else:
        extra = [f"{m.one(number(m, m.of(NUMBERS)), text(m, 2), truth(m))} as x{i}" for i in range(m.number(0, 2))]
        chosen = ", ".join(["k", *extra, m.one("v", "'same' as s", "b", "d as e")])
    return f"from {source}{_filters(m)} select {chosen} insert into {target};"


def latest(m: Maker, source: str, target: str) -> str:
    """Groups without an aggregator: the last row of each in a chunk, mostly before an output rate."""
    window = m.one("", "", "#window.length(2)", "#window.time(30 milliseconds)[v > 1]")
    chosen = m.one("k, v, f", "v, l, str:concat(k, v) as t", f"k, b, {number(m, 'double')} as w")
    group = m.one("k", "v", "k, b")
    limit = "" if m.prelude and window else m.one("", rate(m), " output snapshot every 40 milliseconds")
    limit = "" if m.prelude and "snapshot" in limit else limit
    limit = "" if "snapshot" in limit and window else limit
    return f"from {source}{_filters(m)}{window} select {chosen} group by {group}{limit} insert into {target};"


def shown(m: Maker, source: str, target: str) -> str:
    """A snapshot of what a window holds."""
    if m.prelude:  # in playback it stays on rows
        return sliding(m, source, target)
    window = m.one(
        "time(30 milliseconds)",
        "time(12 milliseconds)",
        "time(75 milliseconds)",
        "length(1)",
        "length(3)",
        "externalTime(l, 30 milliseconds)",
        *(one for one in BATCHES if one != "batch(2)"),
    )
    asked = "[l >= -9L and l < 900000L]" if "(l" in window else ""
    made = [_aggregate(m, i) for i in range(m.number(0, 2))]
    if "atch(" in window:
        made = [_SET.sub("count()", one).replace("Forever(", "(") for one in made]
    extra = m.one("k", "v", "k, b", f"{number(m, 'int', clocks=False)} as w", "'same' as s, d", *([""] if made else []))
    extra = extra if made else m.one(extra, "str:concat(k, v) as t, f")
    group = m.one("", "", " group by k", " group by v", " group by k, b")
    having = "" if made else m.one("", "", " having k == 'a'" if extra.startswith("k") else " having v > 1")
    extra = f"{extra}, v" if "v > 1" in having and extra != "v" else extra
    chosen = ", ".join(filter(None, [*made, extra]))
    every = m.one(5, 12, 40, 400)
    return (
        f"from {source}{_filters(m)}{asked}#window.{window}{_behind(m)} select {chosen}{group}{having}"
        f" output snapshot every {every} milliseconds insert all events into {target};"
    )


_SET = re.compile(r"distinctCount\(\w\)|sizeOfSet\(unionSet\(createSet\(\w\)\)\)")
"""How generated apps count what is different, in both spellings: snapshots of batches have no operator for it."""


def _aggregate(m: Maker, i: int) -> str:
    """Number `i` of a query's aggregators; the first one is a number."""
    match m.number(0, 11):
        case 0 | 1:
            return f"count() as n{i}"
        case 3 if i:
            counted = m.one("distinctCount({})", "distinctCount({})", "sizeOfSet(unionSet(createSet({})))")
            return f"{counted.format(m.one('k', 'v', 'l', 'b'))} as n{i}"
        case 2 if i:
            return f"{m.one('and', 'or')}({m.one('v > 1', 'b', 'not b', 'l is null')} and v < 4) as n{i}"
        case _:
            name = m.one("sum", "avg", "min", "max", "min", "max", "minForever", "maxForever", "stdDev")
            return f"{name}({number(m, m.of(NUMBERS), 1, clocks=False)}) as n{i}"


def sliding(m: Maker, source: str, target: str) -> str:
    """Aggregators over a sliding window, or over all events."""
    window = m.one(
        "",
        "time(30 milliseconds)",
        "time(12 milliseconds)",
        "time(75 milliseconds)",
        "length(1)",
        "length(3)",
        "timeLength(30 milliseconds, 2)",
        "externalTime(l, 30 milliseconds)",
    )
    made = [_aggregate(m, i) for i in range(m.number(1, 3))]
    texts = (
        f", str:concat({text(m)}, n0, count()) as t".replace("n0", made[0].partition(" as ")[0])
        if m.rarely()
        else ", str:upper('a') as t, k"
    )
    extra = m.one("", ", k", ", v", ", eventTimestamp() as at", f", {number(m, 'int')} as w", texts)
    group = m.one("", "", " group by k", " group by v", " group by k, b", " group by l")
    having = m.one("", "", " having n0 > 1.0", " having n0 is null", " having not (n0 > 2.0)", " having count() > 1L")
    if m.rarely():
        extra, having = (
            ", k, v as v",
            m.one(" having k == 'a'", " having v > 1 and n0 > 0.0", " having k != 'a' or v is null"),
        )
    shape = f"#window.{window}{_behind(m)}" if window else ""
    if "(l" in window:
        shape = m.one("[l >= -9L and l < 900000L]", "[not (l is null)]") + shape
    return f"from {source}{_filters(m)}{shape} select {', '.join(made)}{extra}{group}{having} insert into {target};"


UNORDERED = (
    "sort(2, v)",
    "sort(1, l, 'desc')",
    "sort(3, v, 'desc', l)",
    "session(30 milliseconds)",
    "session(12 milliseconds, k)",
    "session(75 milliseconds, k)",
    "session(30 milliseconds, k, 12 milliseconds)",
    "unique:lengthBatch(k, 2)",
    "unique:firstLengthBatch(v, 3)",
    "unique:timeBatch(k, 30 milliseconds)",
    "unique:timeBatch(v, 75 milliseconds, 7)",
    "unique:firstTimeBatch(k, 12 milliseconds)",
    "unique:ever(k)",
    "unique:ever(v, k)",
    "unique:first(k)",
    "unique:first(v, b)",
    "unique:length(k, 1)",
    "unique:length(v, 2)",
    "unique:length(l, 3)",
    "unique:time(k, 30 milliseconds)",
    "unique:time(l, 12 milliseconds)",
)


def unordered(m: Maker, source: str, target: str) -> str:
    """A window that events leave in another order than they came, with aggregators or without."""
    window = m.of([w for w in UNORDERED if not (m.prelude and ("session" in w or "imeBatch" in w))])
    made = [_aggregate(m, i) for i in range(m.number(0, 3))]
    extra = m.one("k", "v", "eventTimestamp() as at", f"{number(m, 'int')} as w")
    group = m.one("", "", " group by k", " group by v", " group by k, b") if made else ""
    having = m.one("", "", " having n0 > 1.0", " having count() > 1L") if made else m.one("", " having k == 'a'")
    asked = "[not (v is null)][not (l is null)]" if window.startswith("sort") else ""
    chosen = ", ".join([*made, extra, *([] if made else ["k"] if extra != "k" else [])])
    return f"from {source}{_filters(m)}{asked}#window.{window}{_behind(m)} select {chosen}{group}{having} insert into {target};"


def keyed(m: Maker, source: str, target: str) -> str:
    """The same in a partition."""
    return unordered(m, source, target)


def delayed(m: Maker, source: str, target: str) -> str:
    """A window `delay`, before aggregators or none."""
    if m.prelude:  # in playback it stays on rows
        return sliding(m, source, target)
    window = f"delay({m.one(1, 12, 30, 75, 400)} milliseconds)"
    made = [_aggregate(m, i) for i in range(m.number(0, 2))]
    extra = m.one("k", "v", "eventTimestamp() as at", "currentTimeMillis() as at", f"{number(m, 'int')} as w")
    group = m.one("", "", " group by k", " group by v") if made else ""
    having = m.one("", "", " having n0 > 1.0") if made else m.one("", " having k == 'a'")
    chosen = ", ".join([*made, extra, *([] if made else ["k"] if extra != "k" else [])])
    return (
        f"from {source}{_filters(m)}#window.{window}{_behind(m)} select {chosen}{group}{having} insert into {target};"
    )


def leaving(m: Maker, source: str, target: str) -> str:
    """A window of which the events that leave come out, alone or with those that come."""
    timed = () if m.prelude else ("time(30 milliseconds)", "time(12 milliseconds)", "time(75 milliseconds)")
    window = m.of((*timed, "length(1)", "length(3)", "externalTime(l, 30 milliseconds)"))
    made = [_aggregate(m, i) for i in range(m.number(0, 3))]
    clock = m.one("eventTimestamp()", "currentTimeMillis()", "str:concat(k, eventTimestamp())")
    extra = m.one("k, v", f"v, {clock} as at", f"k, {number(m, 'int')} as w")
    group = m.one("", "", " group by k", " group by v, b")
    having = m.one("", "", " having n0 > 1.0", " having count() > 1L") if made else ""
    asked = "[l > -9L]" if "(l" in window else ""
    shape = f"from {source}{_filters(m)}{asked}#window.{window}{_behind(m)}"
    events = m.one("expired", "all")
    if m.rarely():  # and somebody reads it
        after = sliding(m, f"Mid{target}", target)
        return f"{shape} select {COLUMNS} insert {events} events into Mid{target}; {after}"
    limit = m.one("", "", " limit 1")
    return f"{shape} select {', '.join([*made, extra])}{group}{having}{limit} insert {events} events into {target};"


BATCHES = (
    "timeBatch(30 milliseconds)",
    "timeBatch(12 milliseconds)",
    "timeBatch(75 milliseconds)",
    "timeBatch(30 milliseconds, 7)",
    "lengthBatch(1)",
    "lengthBatch(2)",
    "lengthBatch(5)",
    "batch()",
    "batch(2)",
    "externalTimeBatch(l, 30 milliseconds)",
    "externalTimeBatch(l, 12 milliseconds, 7)",
)


def batched(m: Maker, source: str, target: str) -> str:
    """A batch window, mostly with aggregators or groups."""
    window = m.of(BATCHES)
    made = [_aggregate(m, i) for i in range(m.number(1, 3))]
    extra = m.one(
        "", ", k", ", v, b", ", k, d", ", eventTimestamp() as at", f", {number(m, 'int', 1, clocks=False)} as w"
    )
    group = m.one("", "", " group by k", " group by v", " group by k, b", " group by l")
    if m.rarely():
        made = [f"{number(m, 'float', 1, clocks=False)} as n0"]
    having = m.one("", "", " having n0 > 1.0", " having n0 is null", " having count() > 1L", " having v > 1")
    if "v > 1" in having:
        extra = ", k, v"
    chosen = ", ".join(made) + extra
    order = _order(m, ["n0", *(["k"] if extra.startswith(", k") else [])]) if m.maybe() else ""
    asked = m.one("[l > -9L]", "[not (l is null)]") if "(l" in window else ""
    return f"from {source}{_filters(m)}{asked}#window.{window}{_behind(m)} select {chosen}{group}{having}{order} insert into {target};"


def partitioned(m: Maker, source: str, target: str) -> str:
    """Queries in a partition."""
    inside = [f"  {m.of(INSIDE)(m, source, target)}"]
    if m.maybe():
        inside.append(f"  {m.of(INSIDE)(m, source, m.output())}")
    if m.maybe():
        inside.append(f"  {m.of((plain, sliding))(m, _inner(m, inside, source), m.output())}")
    body = "\n".join(inside)
    return f"partition with ({partition_key(m)} of {source}) begin\n{body}\nend;"


def keyed_rates(m: Maker, source: str, target: str) -> str:
    """A query with an output rate in a partition, and mostly another one beside it."""
    inside = [rated(m, source, target), *([rated(m, source, m.output())] if m.maybe() else [])]
    return f"partition with ({partition_key(m)} of {source}) begin\n" + "\n".join(inside) + "\nend;"


def purge(m: Maker) -> str:
    """An annotation that lets idle keys be forgotten."""
    idle, every = m.one(12, 30, 75, 400), m.one(1, 1, 12, 75)
    return f"@purge(enable='true', idle.period='{idle} milliseconds', interval='{every} milliseconds') "


def purged(m: Maker, source: str, target: str) -> str:
    """A partition whose idle keys are forgotten."""
    if m.prelude:  # in playback it stays on rows
        return partitioned(m, source, target)
    inside = []
    for n in range(m.number(1, 2)):
        made = m.of((plain, sliding, sliding))(m, source, m.output() if n else target)
        made = _SET.sub("count()", made)
        inside.append("  " + made.replace(" insert into", f"{m.one('', '', ' limit 1')} insert into"))
    body = "\n".join(inside)
    return f"{purge(m)}partition with ({partition_key(m)} of {source}) begin\n{body}\nend;"


def _inner(m: Maker, inside: list[str], source: str) -> str:
    """An inner stream, and in front of the others what makes it."""
    if m.maybe():
        made = plain(m, source, "Mid")
    else:
        window = m.one("time(30 milliseconds)", "length(2)", "lengthBatch(2)", "timeBatch(30 milliseconds)", "batch()")
        chosen = f"k, {m.one('max(v)', 'min(v)')} as v, l, f, d, b{m.one('', ' group by b')}"
        made = f"from {source}#window.{window} select {chosen} insert into Mid;"
    inside.insert(0, "  " + made.replace("insert into Mid", "insert into #Inner"))
    return "#Inner"


def partition_key(m: Maker) -> str:
    """An attribute, an expression, or ranges."""
    match m.number(0, 9):
        case 0:
            return m.one(number(m, "int", 1), number(m, "long", 1, clocks=False))
        case 1:
            return m.one("v > 1", "b and v < 3", "k == 'a'", "(v + 1) % 3")
        case 2:
            ranges = [f"{truth(m)} as '{m.one('low', 'high', 'any')}'" for _ in range(m.number(1, 3))]
            return " or ".join(ranges)
        case _:
            return m.one("k", "k", "v", "b", "l")


def aggregated(m: Maker, source: str, target: str) -> str:
    """With aggregators, mostly without groups other than the keys of the partition."""
    made = batched(m, source, target) if m.maybe() else sliding(m, source, target)
    if not m.rarely():
        made = re.sub(r" group by [a-z, ]*(?= having| order| limit| offset| insert)", "", made)
    return made


def rated(m: Maker, source: str, target: str) -> str:
    """With an output rate, in a partition."""
    made = m.of((plain, sliding, aggregated, latest))(m, source, target)
    if " output " in made:
        return made
    limit = rate(m)
    if "#window" not in made and not m.prelude and not re.search(" limit | offset | order by ", made) and m.rarely():
        limit = f" output snapshot every {m.one(12, 40, 400)} milliseconds"
    if "atch(" in made and not re.search(r"select (count|sum|avg|min|max|minForever|maxForever|stdDev)\(", made):
        limit = limit.replace(" first ", " last ")
    if m.prelude and "timeBatch" in made and "milliseconds" in limit:
        limit = ""
    return made.replace(" insert into", f"{limit} insert into")


def left_inside(m: Maker, source: str, target: str) -> str:
    """The same in a partition, where an inner stream has the key."""
    return leaving(m, source, target).replace(f"Mid{target}", f"#Mid{target}")


INSIDE = (plain, aggregated, aggregated, keyed, delayed, left_inside, rated, rated)
Shape = Callable[[Maker, str, str], str]
SHAPES: tuple[Shape, ...] = (
    plain,
    sliding,
    sliding,
    unordered,
    delayed,
    leaving,
    batched,
    limited,
    latest,
    shown,
    partitioned,
    purged,
)
"""Makers of queries (maker, source, target); an operator adds its own."""


def _several(m: Maker) -> list[str]:
    """Queries that insert into one stream."""
    m.outputs.append("MidAll")
    made = []
    for _ in range(m.number(2, 3)):
        source, inside = m.of(("S", "R")), m.maybe()
        query = plain(m, source, "MidAll")
        if m.rarely():
            limit = "" if inside else m.one("", f" output first every {m.one('2 events', '12 milliseconds')}")
            query = f"from every e1={source}, e2={source}[b] select e1.k as k, e2.v as v, e1.l, e2.f, e1.d, e2.b{limit} insert into MidAll;"
        made.append(f"partition with (k of {source}) begin {query} end;" if inside else query)
    return made


@st.composite
def columnar(draw: st.DrawFn, shapes: Sequence[Shape] = SHAPES) -> Generated:
    """One to three queries, each on an input or on what another one makes."""
    m = Maker(draw)
    if m.rarely():
        m.prelude.append("@app:playback")
    queries = []
    for _ in range(m.number(1, 3)):
        make = m.of(shapes)
        if m.rarely():
            middle = f"Mid{len(queries)}"
            queries.append(plain(m, m.stream(), middle))
            m.streams.append(middle)
        queries.append(make(m, m.stream(), m.output()))
    if m.rarely():
        queries += _several(m)
    streams = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    return Generated("\n".join([*m.prelude, *streams, *queries]), tuple(m.outputs), ())
