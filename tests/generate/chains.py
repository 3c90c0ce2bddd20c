"""Patterns of the shapes that run on columns: chains of plain elements, in partitions and without."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA, Maker
from tests.generate.columnar import plain, rate, truth

_NUMBERS = ("v", "l", "f", "d")


def _condition(m: Maker, slot: int) -> str:
    """A condition of element `slot`, mostly on the events before it."""
    own = m.of(_NUMBERS)
    if slot == 1 or m.rarely():
        return m.one(f"{own} > 1", "k == 'a'", "b", "v is null", "k != 'b'", f"{own} % 2 != 1", truth(m))
    other = f"e{m.number(1, slot - 1)}"
    match m.number(0, 8):
        case 8:
            return m.one(
                f"str:concat(k, 'x') {m.one('==', '!=')} str:concat({other}.k, 'x')",
                f"k == convert({other}.v, 'string') or {other}.k == convert(v, 'string')",
                f"str:length(str:concat({other}.k, {other}.v)) > 1 and k == default({other}.k, 'b')",
                f"math:abs({own} - {other}.{own}) < 2.5",
            )
        case 0 | 1:
            return f"{own} {m.one('>', '<', '>=', '!=', '==')} {other}.{own}"
        case 2:
            return f"k {m.one('==', '==', '==', '!=')} {other}.k"
        case 3:
            return f"k == {other}.k and {own} >= {other}.{own}"
        case 4:
            return f"{other}.{m.of(_NUMBERS)} + {own} > {m.number(0, 4)}"
        case 6:
            return f"{m.one('v', 'l')} == {other}.{m.one('v', 'l')}"
        case 5:
            return f"ifThenElse({other}.b, v > {other}.v, not b)"
        case _:
            return m.one(f"{other}.k is null", f"coalesce({other}.v, v) > 1", f"{other}.b or b", f"{other}.v > 1")


def _filters(m: Maker, slot: int) -> str:
    return "".join(f"[{_condition(m, slot)}]" for _ in range(m.one(0, 1, 1, 2)))


def _selection(m: Maker, width: int) -> str:
    chosen = []
    for i in range(m.number(1, 4)):
        name = f"e{m.number(1, width)}.{m.one('k', 'v', 'l', 'f', 'd', 'b')}"
        other = f"e{m.number(1, width)}"
        chosen.append(
            m.one(
                name,
                name,
                f"{other}.v + e1.v",
                f"coalesce({other}.l, 3L)",
                f"{other}.d * 2",
                "'same'" if i else name,
                "eventTimestamp()",
                f"str:concat({name}, '-', {other}.k, {other}.v + e1.l)" if i else name,
                f"ifThenElse({other}.k is null or e1.b, 'none', str:upper({other}.k))"
                if i
                else f"math:max({other}.v, e1.d)",
            )
            + f" as x{i}"
        )
    return ", ".join(chosen)


def chain(m: Maker, streams: tuple[str, ...], target: str) -> str:
    """A pattern over some streams."""
    width = m.one(2, 2, 3, 4)
    every = m.one("first", "first", "all", "")
    elements = [f"e{i}={m.of(streams)}{_filters(m, i)}" for i in range(1, width + 1)]
    if m.rarely():  # several that compare one attribute with constants
        width, kind = m.number(4, 6), m.one("v == {}", "{}L == v", "k == 'a'", "v == {} and e1.v >= v")
        elements = [f"e{i}={m.of(streams)}[{kind.format(m.number(0, 2))}]" for i in range(1, width + 1)]
    if every == "first":
        elements[0] = f"every {elements[0]}"
    text = " -> ".join(elements)
    text = f"every ({text})" if every == "all" else text
    within = m.one("", " within 30 milliseconds", " within 100 milliseconds", " within 1 sec", " within 5 sec")
    having = m.one("", "", "", " having e1.v > 1", " having x0 is null", " having not (e1.d > 1.0)")
    return f"from {text}{within} select {_selection(m, width)}{having} insert into {target};"


def led(m: Maker, streams: tuple[str, ...], target: str) -> str:
    """A pattern that begins with two elements that are joined by `and`."""
    width = m.one(3, 3, 4)
    every = m.one("first", "first", "all", "")

    def filters(slot: int) -> str:
        if slot > 2:
            return _filters(m, slot)
        return m.one(
            "",
            "",
            f"[{_condition(m, 1)}]",
            f"[k == e{3 - slot}.k or e{3 - slot}.v is null]",
            f"[coalesce(e{3 - slot}.v, 1) <= v]",
        )

    elements = [f"e{i}={m.of(streams)}{filters(i)}" for i in range(1, width + 1)]
    first = f"{elements[0]} and {elements[1]}"
    text = " -> ".join([f"every ({first})" if every == "first" else first, *elements[2:]])
    text = f"every ({text})" if every == "all" else text
    within = m.one("", "", " within 30 milliseconds", " within 100 milliseconds", " within 1 sec")
    having = m.one("", "", "", " having e2.v > 1", " having x0 is null")
    return f"from {text}{within} select {_selection(m, width)}{having} insert into {target};"


@st.composite
def matching(draw: st.DrawFn, make: Callable[[Maker, tuple[str, ...], str], str]) -> Generated:
    """One or two patterns or sequences, as `make` makes them, with a partition by a key of one type or another, or without."""
    m = Maker(draw)
    queries = []
    for _ in range(m.number(1, 2)):
        streams = m.one(("S",), ("S", "R"), ("S", "S", "R"))
        key = m.one("", "", "k", "k", "v", "b")
        if key:
            inner = "\n".join(make(m, streams, m.output()) for _ in range(m.one(1, 1, 2)))
            with_ = ", ".join(f"{m.one(key, key, 'k')} of {s}" for s in ("S", "R"))
            queries.append(f"partition with ({with_}) begin\n{inner}\nend;")
        elif m.rarely():
            queries += [plain(m, "S", f"Mid{len(queries)}"), make(m, (f"Mid{len(queries)}",), m.output())]
        else:
            made = make(m, streams, m.output())
            queries.append(made.replace(" insert into", f"{rate(m)} insert into") if m.rarely() else made)
    clock = "@app:playback\n" if m.rarely() else ""
    defined = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    return Generated(clock + "\n".join([*defined, *queries]), tuple(m.outputs), ())


def _run_condition(m: Maker, slot: int, counted: tuple[bool, ...]) -> str:
    """A condition of element `slot` (from 1) of a sequence."""
    own = m.of(_NUMBERS)
    if slot == 1 and not counted[0]:
        return _condition(m, 1)
    other = m.number(1, slot if counted[slot - 1] else slot - 1)
    index = m.one("", "[last]", "[0]", "[1]", "[last - 1]", "[2]") if counted[other - 1] else ""
    if other == slot and not index:
        index = "[last]"
    seen = f"e{other}{index}"
    return m.one(
        f"{own} {m.one('>', '<', '>=', '!=')} {seen}.{own}",
        f"{seen}.v is null or v >= {seen}.v",
        f"k == {seen}.k or v > 1",
        f"coalesce({seen}.d, 0.5) < d",
        "b",
        f"not ({own} < {seen}.{own})",
        f"str:concat(k, 'x') == str:concat({seen}.k, 'x') or str:contains(k, 'b')",
        f"convert({seen}.v, 'string') != convert(v, 'string')",
    )


def run(m: Maker, streams: tuple[str, ...], target: str) -> str:
    """A sequence over some streams."""
    width = m.one(2, 3, 3, 4)
    counts = (
        [m.one("", "", "+", "<1:2>", "<2:3>")]
        + [m.one("", "", "", "+", "*", "?", "<0:2>", "<1:3>", "<2>") for _ in range(width - 2)]
        + [""]
    )
    optional = ("*", "?", "<0:2>")
    if counts[0] and width == 4 and counts[1] in optional and counts[2] in optional:
        counts[2] = "+"  # two that need no event behind a counted one run on rows
    counted = tuple(map(bool, counts))
    elements = []
    for i in range(1, width + 1):
        filters = "".join(f"[{_run_condition(m, i, counted)}]" for _ in range(m.one(0, 0, 1, 1, 2)))
        elements.append(f"e{i}={m.of(streams)}{filters}{counts[i - 1]}")
    if m.number(0, 4):
        elements[0] = f"every {elements[0]}"
    chosen = []
    for i in range(m.number(1, 4)):
        e = m.number(1, width)
        index = m.one("[last]", "[0]", "[1]", "[last - 1]", "[last - 2]") if counted[e - 1] else ""
        chosen.append(f"e{e}{index}.{m.one('k', 'v', 'l', 'f', 'd', 'b')} as x{i}")
        if i and m.rarely():
            chosen[i] = f"str:concat({chosen[i].partition(' as ')[0]}, e{width}.k) as x{i}"
    within = m.one("", " within 30 milliseconds", " within 1 sec", " within 5 sec")
    having = m.one("", "", "", f" having e{width}.v > 1", " having x0 is null")
    return f"from {', '.join(elements)}{within} select {', '.join(chosen)}{having} insert into {target};"
