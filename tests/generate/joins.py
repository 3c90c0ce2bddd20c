"""Joins of the shapes that run on columns: two streams or one on both sides, with windows and without, in partitions and without."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA, Maker
from tests.generate.columnar import plain, truth

_NUMBERS = ("v", "l", "f", "d")
_WINDOWS = (
    "",
    "#window.time(30 milliseconds)",
    "#window.time(30 milliseconds)",
    "#window.time(12 milliseconds)",
    "#window.time(75 milliseconds)",
    "#window.time(1 sec)",
    "#window.length(1)",
    "#window.length(3)",
    "#window.length(20)",
)


def _condition(m: Maker) -> str:
    """A condition on both sides."""
    own = m.of(_NUMBERS)
    return m.one(
        f"a.{own} {m.one('>', '<', '>=', '!=')} b.{own}",
        "a.v == b.v",
        "b.l == a.l",
        "a.v == b.l",
        "a.b == b.b",
        "a.d == b.d",
        "b.k != a.k",
        "a.v > 1",
        "b.b",
        "coalesce(a.v, 2) > b.v",
        "(a.k == b.k or b.v > 2)",
        "b.k is null",
        "not (a.f < b.d)",
        "eventTimestamp() > a.l",
    )


def _on(m: Maker) -> str:
    if m.rarely():
        return ""
    parts = [m.one("a.k == b.k", "b.k == a.k", _condition(m))]
    parts += [_condition(m) for _ in range(m.one(0, 0, 1, 2))]
    return f" on {' and '.join(parts)}"


def _selection(m: Maker) -> str:
    chosen = []
    for i in range(m.number(1, 4)):
        chosen.append(
            m.one(
                f"{m.one('a', 'b')}.{m.one('k', 'k', 'v', 'l', 'f', 'd', 'b')}",
                f"{m.one('a', 'b')}.{m.one('k', 'v', 'l', 'f', 'd', 'b')}",
                "a.v + b.v",
                "coalesce(b.l, a.l)",
                "ifThenElse(a.b, a.d, b.d * 2)",
                "ifThenElse(a.k == b.k, a.v, 7)",
                "'same'" if i else "a.k",
                "eventTimestamp()",
                "currentTimeMillis()",
                "b.v is null",
            )
            + f" as x{i}"
        )
    return ", ".join(chosen)


def _side(m: Maker, stream: str, name: str) -> str:
    filters = f"[{truth(m)}]" if m.rarely() else ""
    return f"{stream}{filters}{m.of(_WINDOWS)} as {name}"


def join(m: Maker, streams: tuple[str, str], target: str) -> str:
    """A join of two streams."""
    kind = m.one("join", "join", "inner join", "left outer join", "right outer join", "full outer join")
    one, other = _side(m, streams[0], "a"), _side(m, streams[1], "b")
    where = m.number(0, 5)  # 0: the left side alone triggers, 1: the right one
    sides = f"{one}{' unidirectional' if where == 0 else ''} {kind} {other}{' unidirectional' if where == 1 else ''}"
    having = m.one("", "", "", " having a.v > 1", " having x0 is null", " having not (b.d > 1.0)")
    return f"from {sides}{_on(m)} select {_selection(m)}{having} insert into {target};"


@st.composite
def joining(draw: st.DrawFn) -> Generated:
    """One or two joins, with a partition by a key of one type or another, or without."""
    m = Maker(draw)
    queries = []
    for _ in range(m.number(1, 2)):
        streams = m.one(("S", "R"), ("S", "R"), ("R", "S"), ("S", "S"))
        key = m.one("", "", "", "k", "k", "v", "b")
        if key:
            inner = "\n".join(join(m, streams, m.output()) for _ in range(m.one(1, 1, 2)))
            with_ = ", ".join(f"{m.one(key, key, 'k')} of {s}" for s in ("S", "R"))
            queries.append(f"partition with ({with_}) begin\n{inner}\nend;")
        elif m.rarely():
            middle = f"Mid{len(queries)}"
            queries += [plain(m, "S", middle), join(m, (middle, middle), m.output())]
        else:
            queries.append(join(m, streams, m.output()))
    clock = "@app:playback\n" if m.rarely() else ""
    defined = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    return Generated(clock + "\n".join([*defined, *queries]), tuple(m.outputs), ())
