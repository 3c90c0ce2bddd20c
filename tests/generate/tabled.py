"""Apps with tables in memory that have a primary key, queries that write them, and queries that join them or look into them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.generate.apps import Generated
from tests.generate.choices import COLUMNS, SCHEMA, Maker
from tests.generate.columnar import number, truth

KEYS = ("k", "v", "l", "k, v", "v, k", "l, k")


def _table(m: Maker, name: str) -> tuple[str, ...]:
    """A table with a key of one or two attributes; -> the key."""
    key = m.one(*KEYS).split(", ")
    quoted = ", ".join(f"'{column}'" for column in key)
    m.prelude.append(f"@primaryKey({quoted}) define table {name} ({SCHEMA});")
    m.stores.append(name)
    return tuple(key)


def _equal(m: Maker, name: str, key: tuple[str, ...], prefix: str = "", loose: bool = True) -> str:
    """That the key is the event's; `loose`: whole numbers of either size may be."""
    parts = []
    for column in key if m.maybe() else reversed(key):
        own = m.one("v", "l") if loose and column in ("v", "l") and m.rarely() else column
        parts.append(m.one(f"{name}.{column} == {prefix}{own}", f"{prefix}{own} == {name}.{column}"))
    return " and ".join(parts)


def _filter(m: Maker) -> str:
    return f"[{truth(m)}]" if m.maybe() else ""


def _write(m: Maker, name: str, key: tuple[str, ...]) -> str:
    chosen = m.one(COLUMNS, COLUMNS, f"k, v, l, f, {number(m, 'double')} as d, b")
    on, same = _equal(m, name, key), _equal(m, name, key, loose=False)
    some = ", ".join(f"{name}.{column} = {column}" for column in ("f", "d", "b") if m.maybe())
    write = m.one(
        f"insert into {name}",
        f"update or insert into {name} on {same}",
        f"update or insert into {name} on {same}",
        f"update {name} on {same}",
        f"update {name} set {some or f'{name}.f = f'} on {on}",
        f"update or insert into {name} set {some or f'{name}.d = d'} on {same}",
        f"delete {name} on {on}",
        f"delete {name} on {on}",
    )
    if m.rarely():
        window = m.one("", "#window.length(2)", "#window.time(30 milliseconds)")
        return f"from {m.stream()}{_filter(m)}{window} select k, v, sum(v) as l, f, avg(d) as d, b group by k {write};"
    return f"from {m.stream()}{_filter(m)} select {chosen} {write};"


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


def _look(m: Maker, name: str, key: tuple[str, ...], target: str) -> str:
    look = f"{m.one('', 'not ')}(({_equal(m, name, key)}) in {name})"
    more = m.one("", f" and {truth(m)}", f" or {truth(m)}")
    source = f"{m.stream()}{_filter(m)}[{look}{more}]"
    if m.rarely():
        window = m.one("", "#window.length(2)", "#window.time(30 milliseconds)")
        chosen = m.one(
            "k, sum(v) as s, avg(d) as a group by k", "k, count() as n", "v, sum(l) as s group by v having s > 3L"
        )
        return f"from {source}{window} select {chosen} insert into {target};"
    return f"from {source} select {COLUMNS} insert into {target};"


@st.composite
def tabled(draw: st.DrawFn) -> Generated:
    """One or two tables, and two to six queries, some of which read what others make."""
    m = Maker(draw)
    tables = {name: _table(m, name) for name in ("T", "U")[: m.number(1, 2)]}
    for n in range(m.number(2, 6)):
        name, key = m.of(sorted(tables.items()))
        match m.number(0, 7):
            case 0 | 1 | 2:
                m.elements.append(_write(m, name, key))
            case 3 | 4:
                m.elements.append(_join(m, name, key, m.output(), False))
            case 5 if len(m.streams) > 2:  # on rows
                made = m.one(
                    "#window.lengthBatch(2) select k, sum(v) as x insert all events",
                    " select str:upper(k) as x, v, l insert",
                )
                m.elements.append(f"from {m.streams[-1]}{made} into {m.output()};")
            case 5 | 6:
                m.elements.append(_look(m, name, key, m.output()))
            case _:
                made = f"Mid{n}"
                m.elements.append(
                    _join(m, name, key, made, True)
                    if m.maybe()
                    else f"from {m.stream()}{_filter(m)} select {COLUMNS} insert into {made};"
                )
                m.prelude.append(f"define stream {made} ({SCHEMA});")
                m.streams.append(made)
    if not m.outputs:
        m.elements.append(_join(m, *next(iter(tables.items())), m.output(), False))
    streams = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    return Generated("\n".join([*streams, *m.prelude, *m.elements]), tuple(m.outputs), tuple(m.stores))
