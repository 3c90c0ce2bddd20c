"""Queries of every kind: what they read, select, limit and write."""

from __future__ import annotations

from tests.generate.choices import COLUMNS, Maker, Scope, scope
from tests.generate.expressions import NUMBERS, condition, expression, leaf
from tests.generate.windows import JOINED, window

_TYPES = ("int", "long", "float", "double", "bool", "string")


def aggregate(m: Maker, given: Scope) -> tuple[str, str]:
    """A call of an aggregator and the type of its result."""
    kind = m.of(NUMBERS)
    argument = leaf(m, given, kind)
    match m.number(0, 7):
        case 0:
            return "count()", "long"
        case 1 | 2:
            return f"sum({argument})", "long" if kind in ("int", "long") else "double"
        case 3:
            return f"avg({argument})", "double"
        case 4:
            return f"{m.one('min', 'max', 'minForever', 'maxForever')}({argument})", kind
        case 5:
            return f"distinctCount({leaf(m, given, m.one('string', 'int'))})", "long"
        case 6:
            return f"stdDev({argument})", "double"
        case _:
            return f"{m.one('and', 'or')}({leaf(m, given, 'bool')})", "bool"


def selection(m: Maker, given: Scope, keys: tuple[str, ...] = ("k", "b", "v")) -> str:
    """`select … group by … having … order by … limit … offset …`; `keys` can be grouped by."""
    columns: list[tuple[str, str]] = []
    items = []
    for i in range(m.number(1, 3)):
        if m.maybe():
            text, kind = aggregate(m, given)
        else:
            kind = m.of(_TYPES)
            text = expression(m, given, kind)
        columns.append((f"x{i}", kind))
        items.append(f"{text} as x{i}")
    made = f"select {', '.join(items)}"
    if keys and m.maybe():
        made += f" group by {', '.join(keys[: m.number(1, min(2, len(keys)))])}"
    if m.rarely():
        made += f" having {condition(m, tuple(columns))}"
    if m.rarely():
        made += f" order by {m.of(columns)[0]} {m.one('', 'asc', 'desc')}"
    if m.rarely():
        made += f" limit {m.number(1, 3)}" + (f" offset {m.number(0, 2)}" if m.maybe() else "")
    return made


def rate(m: Maker) -> tuple[str, str]:
    """(`output … every …` or nothing, which events go on)."""
    events = m.one("", "all events", "current events", "all events", "expired events")
    match m.number(0, 6):
        case 0:
            return f"output {m.one('', 'all', 'first', 'last')} every {m.number(1, 4)} events", events
        case 1:
            return f"output {m.one('', 'all', 'first', 'last')} every {m.one(10, 35, 500)} milliseconds", events
        case 2:
            return f"output snapshot every {m.one(10, 35, 500)} milliseconds", "all events"
        case _:
            return "", events


def single(m: Maker, source: str, windowed: bool = True) -> str:
    """`from S[…]#…#window.…`, without what follows."""
    made = f"from {source}"
    if m.rarely():
        made += f"[{condition(m, scope())}]"
    if m.rarely():
        made += f"#{_handler(m)}"
    if m.rarely():
        made += f"[{condition(m, scope())}]"
    if windowed and not m.rarely():
        made += f"#window.{window(m)}"
        if m.rarely():
            made += f"[{condition(m, scope())}]"
    return made


def _handler(m: Maker) -> str:
    """A stream function or processor: some keep events back, drop or multiply them."""
    return m.one(
        "pol2Cart(d, d)",
        "str:tokenize(k, ' ')",
        f"unique:deduplicate(k, {m.one(10, 60, 1200)} milliseconds)",
        f"throttler:timeBatch({m.one(10, 60, 1200)} milliseconds{m.one('', ', 7')})",
        "throttler:emitOnStateChange(k, b)",
        f"reorder:kslack(l{m.one('', ', 50L', ', true', ', 50L, 20L', ', 30L, 20L, true', ', -1L, 10L')})",
        f"reorder:akslack(l, v, 15L{m.one('', ', 50L', ', 50L, 20L', ', 40L, 20L, true')})",
    )


def simple(m: Maker, source: str) -> str:
    """A query on one stream."""
    limit, events = rate(m)
    text = "select *" if m.rarely() else selection(m, scope())
    if m.number(0, 7) == 7:
        inner = f"from {source}[{condition(m, scope())}] select {COLUMNS} return"
        return f"from ({inner}) {text} {limit} insert {events} into {m.output()};"
    return f"{single(m, source)} {text} {limit} insert {events} into {m.output()};"


def onward(m: Maker, source: str, target: str) -> str:
    """A query whose rows have the common attributes, so that others can read them."""
    events = m.one("", "all events", "all events", "expired events")
    return f"{single(m, source)} select {COLUMNS} insert {events} into {target};"


# ---- joins ---------------------------------------------------------------------------------------------------------


def join(m: Maker, left: str, right: str, stored: bool = False) -> str:
    """A join of two streams; `stored`: the right side is a table or named window."""
    sides = [_side(m, left, "a", True), _side(m, right, "b", not stored)]
    kind = m.one("join", "left outer join", "right outer join", "full outer join")
    one_way = m.one("", "", "unidirectional")
    if stored and m.maybe():
        sides.reverse()
    if one_way and not stored and m.maybe():
        sides[0], one_way = f"{sides[0]} unidirectional", ""
    if stored:
        one_way = ""
    both = scope("a.") + scope("b.")
    equal = m.one("a.k == b.k", "a.k == b.k and a.v < b.v", "a.v >= b.v", condition(m, both))
    on = "" if m.rarely() and not stored else f"on {equal}"
    limit, events = rate(m)
    made = f"from {sides[0]} {kind} {sides[1]} {one_way} {on} {selection(m, both, ('a.k', 'b.b'))}"
    return f"{made} {limit} insert {events} into {m.output()};"


def _side(m: Maker, source: str, alias: str, windowed: bool) -> str:
    made = source
    if windowed:
        if m.rarely():
            made += f"[{condition(m, scope())}]"
        made += f"#window.{window(m, JOINED)}"
    return f"{made} as {alias}"
