"""Apps with tables in memory, with primary keys and without, queries that write them, and queries that join them or look into them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.generate.apps import Generated
from tests.generate.choices import COLUMNS, SCHEMA, Maker
from tests.generate.computed import number, truth

KEYS = ("k", "v", "l", "k, v", "v, k", "l, k")


def _table(m: Maker, name: str) -> tuple[str, ...]:
    """A table with a primary key of one or two attributes; -> the key. Or without one: -> nothing."""
    key = m.one(*KEYS).split(", ") if m.number(0, 4) < 3 else []
    quoted = ", ".join(f"'{column}'" for column in key)
    marks = [f"@primaryKey({quoted})"] * bool(key) + [f"@index('{m.one('k', 'v', 'd')}')"] * m.rarely()
    m.prelude.append(f"{' '.join(marks)} define table {name} ({SCHEMA});")
    m.stores.append(name)
    return tuple(key)


def _key(m: Maker, key: tuple[str, ...]) -> tuple[str, ...]:
    """What a query asks a table by."""
    return key or tuple(m.one("k", "k", *KEYS).split(", "))


def _equal(m: Maker, name: str, key: tuple[str, ...], prefix: str = "", loose: bool = True) -> str:
    """That the key is the event's; `loose`: whole numbers of either size may be."""
    parts = []
    for column in key if m.maybe() else reversed(key):
        own = m.one("v", "l") if loose and column in ("v", "l") and m.rarely() else column
        parts.append(m.one(f"{name}.{column} == {prefix}{own}", f"{prefix}{own} == {name}.{column}"))
    return " and ".join(parts)


def _filter(m: Maker) -> str:
    return f"[{truth(m)}]" if m.maybe() else ""


def _change(m: Maker, name: str, key: tuple[str, ...]) -> str:
    """A query that changes a table by what it finds there."""
    if m.maybe():
        look = f"{m.one('', 'not ')}(({_equal(m, name, key)}) in {name}){m.one('', f' or {truth(m)}')}"
        return f"from {m.stream()}{_filter(m)}[{look}] select {COLUMNS} {_wish(m, name, key)};"
    kind = m.one("join", "left outer join", "left outer join")
    on = _equal(m, name, key, "x.")
    if kind == "join" and m.maybe():
        on += f" and x.f {m.one('<', '>=', '!=')} {name}.{m.one('d', 'v')}"
    chosen = [
        f"{m.one('x.k', 'x.k', f'{name}.k', chr(39) + 'c' + chr(39))} as k",
        f"{m.one('x.v', 'x.v', f'{name}.v', f'coalesce({name}.v, 0) + 1')} as v",
        f"{m.one('x.l', 'x.l', f'{name}.l', f'x.l + {name}.v')} as l",
        f"{m.one('x.f', f'{name}.f', f'x.f + coalesce({name}.f, x.f)')} as f",
        f"{m.one(f'{name}.d + x.d', f'ifThenElse({name}.d is null, x.d, {name}.d * 2)', 'x.d / 3')} as d",
        f"{m.one(f'not {name}.b', f'{name}.k is null', f'{name}.b', 'x.b')} as b",
    ]
    having = m.one("", "", "", " having d > 0.3", " having b", " having not (v > 2)")
    return f"from {m.stream()}{_filter(m)} as x {kind} {name} on {on} select {', '.join(chosen)}{having} {_wish(m, name, key)};"


def _write(m: Maker, name: str, key: tuple[str, ...]) -> str:
    chosen = m.one(COLUMNS, COLUMNS, f"k, v, l, f, {number(m, 'double')} as d, b")
    write = _wish(m, name, key)
    if m.rarely():
        window = m.one("", "#window.length(2)", "#window.time(30 milliseconds)")
        return f"from {m.stream()}{_filter(m)}{window} select k, v, sum(v) as l, f, avg(d) as d, b group by k {write};"
    return f"from {m.stream()}{_filter(m)} select {chosen} {write};"


def _wish(m: Maker, name: str, key: tuple[str, ...]) -> str:
    on, same = _equal(m, name, key), _equal(m, name, key, loose=False)
    some = ", ".join(f"{name}.{column} = {column}" for column in ("f", "d", "b") if m.maybe())
    return m.one(
        f"insert into {name}",
        f"update or insert into {name} on {same}",
        f"update or insert into {name} on {same}",
        f"update {name} on {same}",
        f"update {name} set {some or f'{name}.f = f'} on {on}",
        f"update {name} set {name}.d = {m.one('d * 2', '0.5', 'd + f', 'ifThenElse(k is null, d, 1.5)')}, {name}.b = {m.one('true', 'not b', 'v > 1')} on {on}",
        f"update or insert into {name} set {some or f'{name}.d = d'} on {same}",
        f"delete {name} on {on}",
        f"delete {name} on {on}",
    )


def _join(m: Maker, name: str, key: tuple[str, ...], target: str, common: bool) -> str:
    on, kind = _equal(m, name, key, "x."), m.one("join", "join", "left outer join")
    if kind == "join" and m.maybe():
        on += f" and {m.one('x.f', 'x.l')} {m.one('<', '>=', '!=')} {name}.{m.one('d', 'v')}"
    if common:
        chosen = f"x.k as k, {m.one('x', name)}.v as v, x.l as l, {m.one('x', name)}.f as f, {name}.d as d, x.b as b"
    else:
        chosen = f"x.k as k, {name}.k as tk, {name}.v as v, {name}.l as l, {name}.f as f, {name}.d as d, {name}.b as b, x.v + {name}.v as s"
        chosen += m.one("", " having s > 2", " having b", " having not (d > 0.5)")
    sides = f"{m.stream()}{_filter(m)} as x {kind} {name}"
    if m.rarely():
        sides = f"{name} {kind.replace('left', 'right')} {m.stream()}{_filter(m)} as x"
    return f"from {sides} on {on} select {chosen} insert into {target};"


def _look(m: Maker, name: str, key: tuple[str, ...], target: str, windowed: bool = True) -> str:
    look = f"{m.one('', 'not ')}(({_equal(m, name, key)}) in {name})"
    more = m.one("", f" and {truth(m)}", f" or {truth(m)}")
    source = f"{m.stream()}{_filter(m)}[{look}{more}]"
    if windowed and m.rarely():
        window = m.one("", "#window.length(2)", "#window.time(30 milliseconds)")
        chosen = m.one(
            "k, sum(v) as s, avg(d) as a group by k", "k, count() as n", "v, sum(l) as s group by v having s > 3L"
        )
        return f"from {source}{window} select {chosen} insert into {target};"
    return f"from {source} select {COLUMNS} insert into {target};"


def _middle(m: Maker, made: str) -> str:
    """A query that makes a stream with the common attributes, of which is known with which arrival each event comes."""
    source, first = (
        m.stream(),
        f" output first every {m.one('1 events', '2 events', '12 milliseconds', '40 milliseconds')}",
    )
    plain = f"from {source}{_filter(m)}{m.one('', '', '#window.length(2)')} select {COLUMNS}"
    matched = (
        f"from every e1={source}{_filter(m)} {m.one('->', ',')} e2={source}[{m.one('e2.v > e1.v', 'e1.b', 'e2.k == e1.k')}]"
        " select e2.k as k, e1.v as v, e2.l as l, e1.f as f, e2.d as d, e1.b as b"
    )
    match m.number(0, 5):
        case 0:
            return f"{plain}{m.one('', '', ' group by k')}{first} insert into {made};"
        case 1:
            return f"{matched}{m.one('', '', first)} insert into {made};"
        case 2:
            inner = m.one(plain, plain + first, matched)
            return f"partition with ({m.one('k', 'k', 'v', 'b')} of {source}) begin {inner} insert into {made}; end;"
        case _:
            return f"from {source}{_filter(m)} select {COLUMNS} insert into {made};"


def _inside(m: Maker, name: str, key: tuple[str, ...]) -> str:
    """A query in a partition, beside one that touches no table."""
    key, source = _key(m, key), m.of(("S", "R"))
    streams, m.streams = m.streams, [source]
    match m.number(0, 3):
        case 0:
            made = _join(m, name, key, "Out9", False)
        case 1:
            made = _look(m, name, key, "Out9")
        case _:
            made = _write(m, name, key)
    m.streams = streams
    if " Out9" in made:
        m.outputs.append("Out9")
    parts = [made]
    if m.maybe():
        parts.append(f"from {source}#window.length(2) select k, sum(v) as s insert into {m.output()};")
    return f"partition with ({m.one('k', 'k', 'v', 'l')} of S, k of R) begin {' '.join(parts)} end;"


@st.composite
def tabled(draw: st.DrawFn) -> Generated:
    """One or two tables, and two to six queries, some of which read what others make."""
    m = Maker(draw)
    playback = "@app:playback\n" * m.rarely()
    tables = {name: _table(m, name) for name in ("T", "U")[: m.number(1, 2)]}
    keyed = [one for one in sorted(tables.items()) if one[1]]
    if keyed and m.maybe():
        m.elements.append(_change(m, *m.of(keyed)))
    for n in range(m.number(2, 6)):
        name, key = m.of(sorted(tables.items()))
        key = _key(m, key)
        match m.number(0, 7):
            case 0 | 1 | 2:
                m.elements.append(_write(m, name, key))
            case 3 | 4:
                m.elements.append(_join(m, name, key, m.output(), False))
            case 5 if len(m.streams) > 2 and not playback:  # on rows
                made = m.one(
                    "#window.lengthBatch(2) select k, sum(v) as x insert all events",
                    " select str:upper(k) as x, v, l insert",
                )
                m.elements.append(f"from {m.streams[-1]}{made} into {m.output()};")
            case 5 | 6:
                m.elements.append(_look(m, name, key, m.output()))
            case _:
                made = f"Mid{n}"
                m.elements.append(_join(m, name, key, made, True) if m.rarely() else _middle(m, made))
                m.prelude.append(f"define stream {made} ({SCHEMA});")
                m.streams.append(made)
    if m.rarely():
        m.elements.append(_inside(m, *m.of(sorted(tables.items()))))
    if m.maybe():  # a stream of several queries
        m.outputs.append("All")
        for _ in range(m.number(2, 3)):
            name, key = m.of(sorted(tables.items()))
            m.elements.insert(
                m.number(0, len(m.elements)) if m.maybe() else len(m.elements),
                m.one(
                    _middle(m, "All"),
                    _join(m, name, _key(m, key), "All", True),
                    _look(m, name, _key(m, key), "All", False),
                ),
            )
    if not m.outputs:
        name, key = next(iter(tables.items()))
        m.elements.append(_join(m, name, _key(m, key), m.output(), False))
    streams = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    return Generated(playback + "\n".join([*streams, *m.prelude, *m.elements]), tuple(m.outputs), tuple(m.stores))
