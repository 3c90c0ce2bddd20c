"""Whole apps, by family: one per part of the language that has state or time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.generate.choices import COLUMNS, SCHEMA, Maker, scope
from tests.generate.expressions import condition, leaf
from tests.generate.queries import join, onward, selection, simple
from tests.generate.states import pattern, sequence
from tests.generate.windows import window


@dataclass(frozen=True)
class Generated:
    """An app, its output streams, and the tables and named windows whose contents are compared too."""

    text: str
    outputs: tuple[str, ...]
    stores: tuple[str, ...]

    def __repr__(self) -> str:
        return f"\n{self.text}\n"


STORE = "database"
"""The type of the stores of generated apps."""


# ---- definitions ---------------------------------------------------------------------------------------------------


def _table(m: Maker) -> str:
    name = f"T{len(m.tables) + 1}"
    m.prelude.append(
        f"{m.one('', '@primaryKey(' + chr(39) + 'k' + chr(39) + ') ', _INDEX)}define table {name} ({SCHEMA});"
    )
    m.tables.append(name)
    m.stores.append(name)
    return name


_INDEX = "@index('v') "


def _write(m: Maker, table: str) -> str:
    """A query that changes a table."""
    events = m.one("", "for all events") if m.rarely() else ""
    source = f"from {m.stream()}[{condition(m, scope())}]"
    on = m.one(f"{table}.k == k", f"{table}.v == v", f"{table}.k == k and {table}.v < v", f"{table}.v > 2")
    set_ = m.one("", f"set {table}.v = v", f"set {table}.v = v + 1, {table}.d = d", f"set {table}.d = {table}.d + d")
    match m.number(0, 5):
        case 0 | 1:
            return f"{source} select {COLUMNS} insert into {table};"
        case 2:
            return f"{source} select {COLUMNS} delete {table} {events} on {on};"
        case 3:
            return f"{source} select {COLUMNS} update {table} {events} {set_} on {on};"
        case _:
            return f"{source} select {COLUMNS} update or insert into {table} {events} {set_} on {on};"


def _trigger(m: Maker) -> str:
    name = f"Tick{len(m.prelude)}"
    when = m.one("every 35 milliseconds", "every 1 sec", "'start'", "'*/2 * * * * ?'")
    m.prelude.append(f"define trigger {name} at {when};")
    return name


# ---- families ------------------------------------------------------------------------------------------------------


def _windows(m: Maker) -> None:
    for _ in range(m.number(1, 2)):
        m.elements.append(simple(m, m.stream()))


def _chains(m: Maker) -> None:
    m.elements.append(onward(m, m.stream(), "Mid"))
    m.streams.append("Mid")
    for _ in range(m.number(1, 2)):
        m.elements.append(simple(m, m.one("Mid", "Mid", m.stream())))


def _joins(m: Maker) -> None:
    m.elements.append(join(m, m.stream(), m.stream()))


def _tables(m: Maker) -> None:
    table = _table(m)
    m.elements += [_write(m, table) for _ in range(m.number(1, 3))]
    if m.maybe():
        m.elements.append(join(m, m.stream(), table, stored=True))
    if m.maybe():
        tick = _trigger(m)
        m.elements.append(f"from {tick} join {table} as t select t.k as k, t.v as x insert into {m.output()};")
    m.elements.append(
        f"from {m.stream()}[{leaf(m, scope(), 'string')} == {table}.k in {table}] select k insert into {m.output()};"
    )


def _stored_tables(m: Maker) -> None:
    size = m.one(1, 2, 3, 50)
    ages = m.one("", "", ", retention.period='30 millisec', purge.interval='20 millisec'", ", retention.period='1 sec'")
    cache = f", @cache(size='{size}', cache.policy='{m.one('FIFO', 'LRU', 'LFU')}'{ages})" if m.number(0, 4) else ""
    m.prelude.append(f"@store(type='{STORE}'{cache}) @primaryKey('k') define table T1 ({SCHEMA});")
    m.stores.append("T1")
    m.elements += [_write(m, "T1") for _ in range(m.number(1, 3))]
    on = m.one("a.k == t.k", "a.k == t.k", "a.k == t.k and t.v > 1", "t.v >= a.v")
    m.elements.append(
        f"from {m.stream()} as a {m.one('join', 'left outer join')} T1 as t on {on}"
        f" select a.k as k, t.v as x, t.d as y order by x, y insert into {m.output()};"
    )
    asked = m.one("T1.k == k", "T1.v == v", "T1.k == k and T1.v < v")
    m.elements.append(f"from {m.stream()}[({asked}) in T1] select k insert into {m.output()};")


def _scripts(m: Maker) -> None:
    m.prelude += _FUNCTIONS
    test = m.one("odd(v)", "odd(v) and v > 1", "not odd(v)", "label(k, b) == 'a+'", "twice(l) > 0L")
    value = m.one("twice(l)", "sum(twice(l))", "label(k, b)", "count()", "max(half(v))", "half(v)", "odd(v)")
    shape = m.one("", f"#window.{window(m)}")
    group = m.one("", "group by k")
    m.elements.append(
        f"from {m.stream()}[{test}]{shape} select k, {value} as x {group} insert {m.one('', 'all events')} into {m.output()};"
    )
    if m.maybe():
        m.elements.append(
            "partition with (label(k, b) of S, k of R) begin"
            f"  from every e1=S -> e2=S[odd(v) and v > e1.v] select label(e1.k, e2.b) as x, half(e2.v) as y insert into {m.output()}; end;"
        )


_FUNCTIONS = (
    "define function odd[javascript] return bool { return data[0] % 2 == 1; };",
    "define function twice[python] return long { return data[0] * 2 };",
    "define function label[javascript] return string { return data[0] + (data[1] ? '+' : '-'); };",
    "define function half[python] return double { return data[0] / 2 };",  # fails on null
)


def _sharded(m: Maker) -> None:
    """Split by key: all state lies in partitions with one key per input."""
    m.streams = ["S", "R"]
    attribute = m.one("k", "k", "v", "b")
    purge = m.one("", "", "@purge(enable='true', interval='50 milliseconds', idle.period='100 milliseconds') ")
    source = "S"
    if m.maybe():
        m.elements.append(f"from S[{condition(m, scope())}] select {COLUMNS} insert into Mid;")
        source = "Mid"
    streams, inside = [source, "R"], []
    if m.maybe():
        inside.append(onward(m, m.of(streams), "#I"))
        streams.append("#I")
    for _ in range(m.number(1, 3)):
        made = m.one(simple, pattern, sequence, join)
        if made in (pattern, sequence):
            inside.append(made(m, streams))
        elif made is join:
            inside.append(join(m, m.of(streams), m.of(streams)))
        else:
            inside.append(simple(m, m.of(streams)))
    body = "\n  ".join(inside)
    m.elements.append(f"{purge}partition with ({attribute} of {source}, {attribute} of R) begin\n  {body}\nend;")


def _named_windows(m: Maker) -> None:
    given = m.one("", "output all events", "output current events", "output expired events")
    m.prelude.append(f"define window W ({SCHEMA}) {window(m)} {given};")
    m.stores.append("W")
    m.elements.append(f"from {m.stream()}[{condition(m, scope())}] select {COLUMNS} insert into W;")
    m.elements.append(f"from W {selection(m, scope())} insert {m.one('', 'all events')} into {m.output()};")
    if m.maybe():
        m.elements.append(join(m, m.stream(), "W", stored=True))


def _patterns(m: Maker) -> None:
    m.elements.append(pattern(m, m.streams))


def _sequences(m: Maker) -> None:
    m.elements.append(sequence(m, m.streams))


def _partitions(m: Maker) -> None:
    key = m.one("k of S", "k of S, k of R", "v of S, v of R", "v < 2 as 'low' or v > 1 as 'high' of S, k of R")
    purge = m.one("", "", "@purge(enable='true', interval='50 milliseconds', idle.period='100 milliseconds') ")
    inside = []
    streams = ["S", "R"]
    if m.maybe():
        inside.append(onward(m, m.one("S", "R"), "#I"))
        streams.append("#I")
    for _ in range(m.number(1, 2)):
        source = m.of(streams)
        made = m.one(simple, simple, pattern, sequence, join)
        if made in (pattern, sequence):
            inside.append(made(m, streams))
        elif made is join:
            inside.append(join(m, source, m.of(streams)))
        else:
            inside.append(simple(m, source))
    body = "\n  ".join(inside)
    m.elements.append(f"{purge}partition with ({key}) begin\n  {body}\nend;")


def _aggregations(m: Maker) -> None:
    by = m.one("", "aggregate by l ")
    within = m.one("0L, 100000000L", "'1970-**-** **:**:**'")
    every = m.one("every sec ... hour", "every sec, min", "every min")
    per = "minutes" if every == "every min" else "seconds"
    made = "sum(v) as x, avg(d) as y, distinctCount(v) as n, min(f) as m, v as latest"
    by = by or "aggregate "
    m.prelude.append(f"define aggregation A from S select k, {made} group by k {by}{every};")
    m.elements.append(
        f"from R as r join A as a on a.k == r.k within {within} per '{per}'"
        f" select r.k as k, a.AGG_TIMESTAMP as t, a.x as x, a.y as y, a.n as n, a.m as m, a.latest as z insert into {m.output()};"
    )


def _triggers(m: Maker) -> None:
    for _ in range(m.number(1, 2)):
        tick = _trigger(m)
        shape = m.one("", "#window.length(2)", "#window.lengthBatch(2)")
        m.elements.append(
            f"from {tick}{shape} select triggered_time as t, count() as n insert all events into {m.output()};"
        )
    m.elements.append(simple(m, m.stream()))


def _faults(m: Maker) -> None:
    m.streams.append("X")
    m.prelude.append(f"@OnError(action='STREAM') define stream X ({SCHEMA});")
    m.elements.append(f"from {m.one('S', 'R')} select {COLUMNS} insert into X;")
    m.elements.append(
        f"from X#window.sort(2, v) {selection(m, scope())} insert all events into {m.output()};"
    )  # fails on null
    m.elements.append(f"from !X select k, v, count() as n insert into {m.output()};")
    m.elements.append(simple(m, "X"))


def _mixed(m: Maker) -> None:
    for part in {m.one(*_PARTS), m.one(*_PARTS)}:
        part(m)


_PARTS: tuple[Callable[[Maker], None], ...] = (
    _windows,
    _chains,
    _joins,
    _tables,
    _patterns,
    _sequences,
    _partitions,
    _triggers,
)

FAMILIES: dict[str, Callable[[Maker], None]] = {
    "windows": _windows,
    "chains": _chains,
    "joins": _joins,
    "tables": _tables,
    "stored tables": _stored_tables,
    "scripts": _scripts,
    "named windows": _named_windows,
    "patterns": _patterns,
    "sequences": _sequences,
    "partitions": _partitions,
    "aggregations": _aggregations,
    "triggers": _triggers,
    "faults": _faults,
    "mixed": _mixed,
    "sharded": _sharded,
}


@st.composite
def apps(draw: st.DrawFn, family: str) -> Generated:
    """Apps of a family; one in four runs on the clock of its events, one in eight by the rules of 4.x."""
    m = Maker(draw)
    FAMILIES[family](m)
    clock = ""
    if family != "sharded" and m.rarely():  # playback keeps an app in one bucket
        clock = m.one("@app:playback\n", "@app:playback(idle.time='40 millisec', increment='15 millisec')\n")
    if m.number(0, 7) == 7:
        clock = f"@app:compat('4')\n{clock}"
    streams = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    return Generated(clock + "\n".join([*streams, *m.prelude, *m.elements]), tuple(m.outputs), tuple(m.stores))
