"""Joins of the shapes that run on columns: two streams or one on both sides, with windows and without, in partitions and without."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from tests.generate.apps import Generated
from tests.generate.choices import ATTRIBUTES, SCHEMA, Maker
from tests.generate.columnar import partition_key, plain, rate, sliding
from tests.generate.computed import truth

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
    "#window.batch()",
    "#window.batch(2)",
    "[l > -9L]#window.externalTime(l, 30 milliseconds)",
    "[l > -9L]#window.externalTime(l, 1 sec)",
)
_LIVE = (
    "#window.timeLength(30 milliseconds, 2)",
    "#window.timeLength(12 milliseconds, 1)",
    "#window.timeLength(1 sec, 3)",
)
"""Not in playback."""
_BATCHES = (
    "#window.lengthBatch(1)",
    "#window.lengthBatch(2)",
    "#window.lengthBatch(3)",
    "[l > -9L]#window.externalTimeBatch(l, 30 milliseconds)",
    "[l > -9L]#window.externalTimeBatch(l, 12 milliseconds, 5)",
)
_UNIQUE = (
    "#window.unique:lengthBatch(k, 2)",
    "#window.unique:firstLengthBatch(v, 3)",
    "#window.unique:lengthBatch(b, 2)",
)
_UNIQUE_TIMED = ("#window.unique:timeBatch(k, 30 milliseconds)", "#window.unique:firstTimeBatch(v, 12 milliseconds)")
"""Not in partitions."""
_TIMED = (
    "#window.timeBatch(30 milliseconds)",
    "#window.timeBatch(12 milliseconds)",
    "#window.timeBatch(75 milliseconds, 5)",
)
"""Neither in playback nor before other timers."""


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
        "str:concat(a.k, a.v) == str:concat(b.k, b.v)",
        "(str:contains(a.k, 'a') or convert(b.v, 'string') != convert(a.l, 'string'))",
        "math:abs(a.v - b.d) < 2.5",
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
                "str:concat(a.k, '-', b.k, a.v + b.v)" if i else "a.k",
                "ifThenElse(b.k is null or a.v > 1, 'none', str:upper(b.k))" if i else "convert(a.v, 'double')",
            )
            + f" as x{i}"
        )
    return ", ".join(chosen)


def _side(m: Maker, stream: str, name: str, live: bool, timed: bool, inside: bool) -> str:
    filters = f"[{truth(m)}]" if m.rarely() else ""
    kinds = [_WINDOWS, _WINDOWS, _BATCHES, *([_LIVE] if live else []), *([_TIMED] if live and timed else [])]
    if not inside and m.rarely():
        kinds = [_UNIQUE, *([_UNIQUE_TIMED] if live and timed else [])]
    return f"{stream}{filters}{m.of(m.of(kinds))} as {name}"


_FUNCTIONS = ("sum", "avg", "min", "max", "min", "max", "minForever", "maxForever", "stdDev")


def _totals(m: Maker, grouped: bool, inside: bool) -> tuple[str, str]:
    """A selection with aggregators, with what comes behind it."""
    made = []
    for i in range(m.number(1, 3)):
        argument = m.one("a.v", "b.v", "a.d", "b.f * 0.1", "a.l + b.l", "coalesce(b.d, a.d)", "a.f")
        match m.number(0, 8):
            case 0 | 1:
                made.append(f"count() as n{i}")
            case 2 if i:
                made.append(f"distinctCount({m.one('a.k', 'b.k', 'b.v', 'a.l', 'b.b')}) as n{i}")
            case 3 if i:
                made.append(f"{m.one('and', 'or')}({m.one('a.v > b.v', 'not b.b', 'b.l is null')}) as n{i}")
            case _:
                made.append(f"{m.one(*_FUNCTIONS)}({argument}) as n{i}")
    group = m.one("", "", "a.k", "b.k", "a.v", "b.b", "b.l", "a.k, a.v", "b.b, b.k") if grouped else ""
    if group and m.rarely():
        made = ["a.d as n0"]
    extra = m.one(
        "", ", a.k as k", ", b.v as v", ", a.k as k, b.k as j", ", a.v + b.v as w", ", str:concat(a.k, b.v) as t"
    )
    having = m.one(
        "",
        "",
        " having n0 > 1.0",
        " having n0 is null",
        " having a.v > 1" if "a.d as" in made[0] else " having count() > 1L",
        " having a.v > 1",
    )
    return ", ".join(made) + extra, (f" group by {group}" if group else "") + having + _finish(m, "n0", inside)


def _finish(m: Maker, name: str, inside: bool) -> str:
    """Order by, limit and offset, an output rate."""
    made = ""
    if m.rarely():
        made = f" order by {name}{m.one('', ' desc')}" + m.one("", " limit 1", " limit 2") + m.one("", "", " offset 1")
    return made + (rate(m, ("", "all ", "last ")) if not inside and m.rarely() else "")


def join(m: Maker, streams: tuple[str, str], target: str, live: bool, inside: bool = False) -> str:
    """A join of two streams. `live`: not in playback, where some windows are on rows, and `time` under aggregators; `inside` of a partition. What other
    queries read has the common attributes."""
    kind = m.one("join", "join", "inner join", "left outer join", "right outer join", "full outer join")
    timed = not target.startswith("Mid")
    one, other = (_side(m, stream, name, live, timed, inside) for stream, name in zip(streams, "ab"))
    where = m.number(0, 5)  # 0: the left side alone triggers, 1: the right one
    sides = f"{one}{' unidirectional' if where == 0 else ''} {kind} {other}{' unidirectional' if where == 1 else ''}"
    if target.startswith("Mid"):
        chosen = ", ".join(f"{m.one('a', 'b')}.{name} as {name}" for name, _type in ATTRIBUTES)
        return f"from {sides}{_on(m)} select {chosen} insert into {target};"
    if (live or ".time(" not in one + other) and m.maybe():
        resets = any("window" not in side or "atch(" in side for side in (one, other))
        apart = not inside or ("outer" not in kind and not resets)
        selection, rest = _totals(m, apart, inside)
        on = _on(m).replace("eventTimestamp() > a.l", "b.l > a.l")
        if "outer" in kind:  # what may be absent counts as null
            selection = re.sub(r"distinctCount\(\w\.\w\)", "count()", selection)
        for name, attribute in re.findall(r"distinctCount\((\w)\.(\w)\)", selection):
            sides = _without_null(sides, name, attribute)
        return f"from {sides}{on} select {selection}{rest} insert into {target};"
    having = m.one("", "", "", " having a.v > 1", " having x0 is null", " having not (b.d > 1.0)")
    return f"from {sides}{_on(m)} select {_selection(m)}{having}{_finish(m, 'x0', inside)} insert into {target};"


def _without_null(sides: str, name: str, attribute: str) -> str:
    """A join whose side of this name has no event in which the attribute is null."""
    asked = rf"\1[not ({attribute} is null)]"
    return re.sub(r"^(\w+)" if name == "a" else r"(?<=join )(\w+)", asked, sides, count=1)


@st.composite
def joining(draw: st.DrawFn) -> Generated:
    """One or two joins, with a partition by a key of one type or another, or without."""
    m = Maker(draw)
    queries = []
    playback = m.rarely()
    for _ in range(m.number(1, 2)):
        streams = m.one(("S", "R"), ("S", "R"), ("R", "S"), ("S", "S"))
        key = m.one("", "", "", "k", "k", "v", "b")
        if key:
            inner = "\n".join(join(m, streams, m.output(), not playback, inside=True) for _ in range(m.one(1, 1, 2)))
            with_ = ", ".join(f"{m.one(key, key, 'k')} of {s}" for s in ("S", "R"))
            if m.rarely():
                with_ = ", ".join(f"{partition_key(m)} of {s}" for s in ("S", "R"))
            queries.append(f"partition with ({with_}) begin\n{inner}\nend;")
        elif m.rarely():
            middle = f"Mid{len(queries)}"
            made = m.one((middle, middle), (middle, "R"), ("R", middle))
            queries += [plain(m, "S", middle), join(m, made, m.output(), not playback)]
        elif m.rarely():
            middle = f"Mid{len(queries)}"
            queries += [join(m, streams, middle, not playback), m.of((plain, sliding, sliding))(m, middle, m.output())]
        else:
            queries.append(join(m, streams, m.output(), not playback))
    clock = "@app:playback\n" if playback else ""
    defined = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    return Generated(clock + "\n".join([*defined, *queries]), tuple(m.outputs), ())
