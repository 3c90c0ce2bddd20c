"""Apps of which one part can run on columns and another one has to run on rows, connected in all ways."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.generate.apps import _PARTS, Generated, _aggregations, _faults, _named_windows, _scripts
from tests.generate.chains import chain, run
from tests.generate.choices import COLUMNS, SCHEMA, Maker
from tests.generate.columnar import SHAPES, partition_key
from tests.generate.computed import number, truth

ROWS: tuple[Callable[[Maker], None], ...] = (*_PARTS, _aggregations, _faults, _named_windows, _scripts)
_FAILING = "#window.sort(2, v) select k"


def _middle(m: Maker) -> None:
    """A stream with the common attributes that a query on columns makes, for others to read."""
    name, source = f"Mid{len(m.elements)}", m.stream()
    match m.number(0, 4):
        case 0:
            made = f"from {source} select {COLUMNS} insert into {name};"
        case 1:
            made = f"from {source}[{truth(m)}] select k, {number(m, 'int')} as v, l, f, d, b insert into {name};"
        case 4:
            over = m.one("e1=S -> e2=S", "e1=S -> e2=R[v > e1.v]", "e1=R, e2=S[v >= e1.v]", "e1=S, e2=S+, e3=R")
            last = "e3" if "e3" in over else "e2"
            chosen = f"e1.k as k, {last}.v as v, e1.l as l, e1.f as f, {last}.d as d, e1.b as b"
            made = f"from every {over} within 100 milliseconds select {chosen} insert into {name};"
            if m.maybe():
                made = f"partition with (k of S, k of R) begin {made} end;"
        case 2:
            window = m.one("time(30 milliseconds)", "length(2)", "timeLength(75 milliseconds, 2)")
            made = f"from {source}#window.{window} select k, v, sum(v) as l, f, avg(d) as d, b group by k insert into {name};"
        case _:
            inner = f"from {source}#window.length(2) select k, v, sum(v) as l, f, avg(d) as d, b insert into {name};"
            if m.rarely():
                first = inner.replace(f"insert into {name}", "insert into #Inner")
                inner = (
                    f"{first} from #Inner[{m.one('v > 1', 'l is null', 'true')}] select {COLUMNS} insert into {name};"
                )
            made = f"partition with ({partition_key(m)} of {source}) begin {inner} end;"
    m.prelude.append(f"define stream {name} ({SCHEMA});")
    m.elements.append(made)
    m.streams.append(name)
    if not m.rarely():
        m.elements.append(_on_rows(m, name))


def _tabled(m: Maker) -> None:
    """Queries that change and read a table, and cannot fail."""
    m.prelude.append(f"{m.one('', '@primaryKey(' + chr(39) + 'k' + chr(39) + ') ')}define table U ({SCHEMA});")
    m.stores.append("U")
    for _ in range(m.number(1, 3)):
        source = m.stream()
        write = m.one(
            "insert into U",
            "update U on U.k == k",
            "update or insert into U on U.k == k",
            "delete U on U.k == k and U.v == v",
            "update or insert into U set U.v = v on U.k == k or U.v == v",
        )
        m.elements.append(f"from {source}{m.one('', '[v > 1]')} select {COLUMNS} {write};")
        if m.maybe():
            m.elements.append(
                f"from {m.stream()} as x {m.one('join', 'left outer join')} U on U.k == x.k select x.v as v, U.v as w insert into {m.output()};"
            )


def _on_rows(m: Maker, source: str) -> str:
    """A reader on rows: whether and where it fails is different."""
    other = m.stream()
    text = m.one(
        f"from {source}#window.lengthBatch(2) select k, sum(v) as x insert all events",
        f"from {source}#window.timeBatch(40 milliseconds) select k, count() as x insert all events",
        f"from {source}#window.length(2) as x join {other}#window.length(2) as y on x.k == y.k"
        " select x.v as v, y.l as l insert all events",
        f"from {source}#window.sort(2, v) select k, l insert all events",
        f"from {source} select str:upper(k) as x, v, l insert",
        f"from every e1={source} -> e2={other}[v > e1.v] and e3={source} select e1.l as x, e2.l as y insert",
    )
    return f"{text} into {m.output()};"


def _columns(m: Maker) -> None:
    m.elements.append(m.of(SHAPES)(m, m.stream(), m.output()))


def _matching(m: Maker) -> None:
    m.elements.append(m.one(chain, run)(m, ("S", "R"), m.output()))


def _failing(m: Maker) -> None:
    """A query that fails on some events, on rows: the ones behind it do not see them."""
    m.elements.append(f"from {m.stream()}{_FAILING} insert all events into {m.output()};")


def _two_sided(m: Maker) -> None:
    """A partition with queries on both sides."""
    source = m.stream()
    on_rows = m.one(
        f"from {source}#window.sort(2, l) select k, v insert all events",
        f"from {source}{_FAILING} insert all events",
        "from R#window.lengthBatch(2) select sum(v) as x insert",
        "from every not R for 40 milliseconds select 1 as x insert",
    )
    inside = [
        f"from {source}#window.length(3) select sum(v) as x insert into {m.output()};",
        f"{on_rows} into {m.output()};",
    ]
    if m.maybe():
        inside.reverse()
    keys = f"k of {source}" if source == "R" else m.one(f"k of {source}, k of R", f"k of {source}")
    m.elements.append(f"partition with ({keys}) begin {' '.join(inside)} end;")


@st.composite
def mixed(draw: st.DrawFn) -> Generated:
    """Two to five parts in any order; names of streams that columns make are read by both."""
    m = Maker(draw)
    for _ in range(m.number(2, 5)):
        m.of((_middle, _middle, _middle, _columns, _matching, _failing, _two_sided, _tabled, m.of(ROWS)))(m)
    clock = "@app:playback\n" if m.number(0, 9) == 9 else ""
    streams = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    prelude = list(dict.fromkeys(m.prelude))
    return Generated(
        clock + "\n".join([*streams, *prelude, *m.elements]), tuple(m.outputs), tuple(dict.fromkeys(m.stores))
    )
