"""Patterns of the shapes that run on columns: chains of plain elements, in partitions and without."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA, Maker
from tests.generate.columnar import partition_key, plain, purge, rate
from tests.generate.computed import truth

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
    text, width = _chain(m, streams)
    having = m.one("", "", "", " having e1.v > 1", " having x0 is null", " having not (e1.d > 1.0)")
    return f"from {text} select {_selection(m, width)}{having} insert into {target};"


def _chain(m: Maker, streams: tuple[str, ...]) -> tuple[str, int]:
    """A pattern, and how many elements it has."""
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
    return text + within, width


def summed(m: Maker, streams: tuple[str, ...], target: str) -> str:
    """A pattern or sequence whose matches are summed up."""
    if m.number(0, 2):
        text, width = _chain(m, streams)
        seen = [f"e{i}" for i in range(1, width + 1)]
    else:
        text, counted = _run(m, streams)
        seen = [f"e{i}{m.one('[last]', '[0]') if c else ''}" for i, c in enumerate(counted, 1)]
    chosen = []
    for i in range(m.number(1, 4)):
        one = f"{m.of(tuple(seen))}.{m.of(_NUMBERS)}"
        chosen.append(
            m.one(
                f"sum({one})",
                f"avg({one} + {m.of(tuple(seen))}.v)",
                "count()",
                f"max({one})",
                f"minForever({one})",
                f"distinctCount({m.of(tuple(seen))}.k)",
                f"stdDev({one})",
                f"{m.of(tuple(seen))}.{m.one('k', 'v', 'b')}",
                "eventTimestamp()",
            )
            + f" as x{i}"
        )
    chosen.append("count() as n")
    keys = ", ".join(f"{m.of(tuple(seen))}.{m.one('k', 'v', 'b')}" for _ in range(m.one(0, 1, 1, 2)))
    group = f" group by {keys}" if keys else ""
    having = m.one("", "", " having n > 1L", " having n != 2L and x0 is null", f" having {seen[0]}.v > 0")
    return f"from {text} select {', '.join(chosen)}{group}{having} insert into {target};"


def absent(m: Maker, streams: tuple[str, ...], target: str) -> str:
    """A pattern whose last element must stay away."""
    width = m.one(2, 2, 2, 3)
    every = m.one("first", "first", "first", "all", "")
    elements = [f"e{i}={m.of(streams)}{_filters(m, i)}" for i in range(1, width)]
    elements[0] = f"every {elements[0]}" if every == "first" else elements[0]
    wait = m.one("3 milliseconds", "20 milliseconds", "50 milliseconds", "1 sec")
    text = " -> ".join([*elements, f"not {m.of(streams)}{_filters(m, width)} for {wait}"])
    text = f"every ({text})" if every == "all" else text
    within = m.one("", "", " within 10 milliseconds", " within 100 milliseconds", " within 2 sec")
    having = m.one("", "", "", " having e1.v > 1", " having x0 is null")
    chosen = _selection(m, width - 1).replace("eventTimestamp()", f"e{width - 1}.v - 1")
    return f"from {text}{within} select {chosen}{having} insert into {target};"


@st.composite
def absences(draw: st.DrawFn) -> Generated:
    """One or two patterns that wait for an absence."""
    m = Maker(draw)
    queries = []
    for number in range(m.number(1, 2)):
        streams = m.one(("S",), ("S", "R"), ("S", "S", "R"))
        if m.rarely():
            queries.append(plain(m, "S", f"Mid{number}"))
            streams = m.one((f"Mid{number}",), (f"Mid{number}", "R"))
        made = absent(m, streams, m.output())
        queries.append(_rated(m, made) if m.rarely() else made)
    defined = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    return Generated("\n".join([*defined, *queries]), tuple(m.outputs), ())


def _rated(m: Maker, query: str, snapshots: bool = True) -> str:
    """A query with an output rate."""
    limit = rate(m)
    if snapshots and m.rarely():
        limit = f" output snapshot every {m.one(5, 12, 40, 400)} milliseconds"
    return query.replace(" insert into", f"{limit} insert into")


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
def matching(draw: st.DrawFn, make: Callable[[Maker, tuple[str, ...], str], str], live: bool = False) -> Generated:
    """One or two patterns or sequences, as `make` makes them, with a partition by a key of some type, or without. `live`: timers put out rows."""
    m = Maker(draw)
    queries = []
    clock = "@app:playback\n" if m.rarely() and not live else ""
    for _ in range(m.number(1, 2)):
        streams = m.one(("S",), ("S", "R"), ("S", "S", "R"))
        key = m.one("", "", "k", "k", "v", "b")
        if key:
            inner = "\n".join(make(m, streams, m.output()) for _ in range(m.one(1, 1, 2)))
            with_ = ", ".join(f"{m.one(key, key, 'k')} of {s}" for s in ("S", "R"))
            if m.rarely():
                with_ = ", ".join(f"{partition_key(m)} of {s}" for s in ("S", "R"))
            if m.rarely():
                before = plain(m, "S", "Mid").replace(" into Mid", " into #In")
                inner = f"{before}\n{make(m, ('#In',), m.output())}\n{inner}"
            queries.append(f"partition with ({with_}) begin\n{inner}\nend;")
        elif m.rarely():
            middle = f"Mid{len(queries)}"
            read = m.one((middle,), (middle, "R"), ("R", middle))
            queries += [plain(m, "S", middle), make(m, read, m.output())]
        else:
            made = make(m, streams, m.output())
            often = make is summed or live
            shows = not clock and make not in (chain, run)  # rows cannot go on with a snapshot
            queries.append(_rated(m, made, shows) if m.rarely() or (often and m.maybe()) else made)
    defined = [f"define stream {name} ({SCHEMA});" for name in ("S", "R")]
    if not clock and make in (chain, led, run) and m.rarely():
        queries = [query.replace("partition with", f"{purge(m)}partition with") for query in queries]
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
    text, counted = _run(m, streams)
    width, chosen = len(counted), []
    for i in range(m.number(1, 4)):
        e = m.number(1, width)
        index = m.one("[last]", "[0]", "[1]", "[last - 1]", "[last - 2]") if counted[e - 1] else ""
        chosen.append(f"e{e}{index}.{m.one('k', 'v', 'l', 'f', 'd', 'b')} as x{i}")
        if i and m.rarely():
            chosen[i] = f"str:concat({chosen[i].partition(' as ')[0]}, e{width}.k) as x{i}"
    having = m.one("", "", "", f" having e{width}.v > 1", " having x0 is null")
    return f"from {text} select {', '.join(chosen)}{having} insert into {target};"


def _run(m: Maker, streams: tuple[str, ...]) -> tuple[str, tuple[bool, ...]]:
    """A sequence, and which of its elements are counted."""
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
    within = m.one("", " within 30 milliseconds", " within 1 sec", " within 5 sec")
    return ", ".join(elements) + within, counted


_WAITS = ("3 milliseconds", "3 milliseconds", "20 milliseconds", "50 milliseconds", "1 sec")


def free(m: Maker, streams: tuple[str, ...], target: str) -> str:
    """A pattern of counted and logical elements, with `every` anywhere."""
    return _selected(m, target, *_free(m, streams))


def waiting(m: Maker, streams: tuple[str, ...], target: str) -> str:
    """The same with elements that wait for absences by the clock."""
    return _selected(m, target, *_free(m, streams, timed=True)).replace("eventTimestamp()", "1")


def _selected(m: Maker, target: str, text: str, seen: tuple[str, ...]) -> str:
    chosen = [f"{m.of(seen)}.{m.one('k', 'v', 'l', 'f', 'd', 'b')} as x{i}" for i in range(m.number(1, 4))]
    chosen += m.one([], [], ["eventTimestamp() as t", f"coalesce({m.of(seen)}.v, 1) + 1 as u"])
    having = m.one("", "", "", f" having {m.of(seen)}.v > 1", " having x0 is null")
    return f"from {text} select {', '.join(chosen)}{having} insert into {target};"


def _free(m: Maker, streams: tuple[str, ...], timed: bool = False) -> tuple[str, tuple[str, ...]]:
    """A pattern, and what of its events may be selected."""
    kinds = [m.one("plain", "plain", "count", "count", "and", "or", "not") for _ in range(m.number(1, 3))]
    kinds.append(m.one("plain", "plain", "count", "or", "and", "not", "optional"))
    if m.rarely() and kinds[-1] != "optional":
        kinds.insert(m.number(0, len(kinds) - 1), "optional")
    if timed:
        kinds = [m.one("plain", "count", "and", "or", "not", "away", "not for") for _ in range(m.one(1, 1, 2))]
        kinds += m.one(["plain"], ["away"], ["away"])
        kinds = _parted(kinds)
    if kinds[-1] == "optional" and kinds[:-1] != ["plain"]:
        kinds[-1] = "plain"  # a match that does not come there from a plain first element goes on rows
    units, named = _units(m, streams, kinds, timed)
    text = " -> ".join(units)
    form = m.number(0, 5)
    away = {"not", "not for"} & set(kinds[:-1])
    if away and {"count", "optional", "and", "or", "not", "not for"} & set(kinds[1:]):
        form = 5  # copies that keep what counted or logical elements bound go on rows
    match form:
        case 0 | 1:
            text = " -> ".join([f"every {units[0]}", *units[1:]])
        case 2:
            text = f"every ({text})"
        case 3:
            start = m.number(0, len(units) - 1)
            end = m.number(start + 1, len(units))
            scope = f"every ({' -> '.join(units[start:end])})"
            text = " -> ".join([*units[:start], scope, *units[end:]])
        case 4:
            start = m.number(0, len(units) - 1)
            text = (
                " -> ".join([f"every {units[0]}", *units[1:start], f"every ({' -> '.join(units[start:])})"])
                if start
                else text
            )
        case _:
            pass
    within = m.one("", "", " within 30 milliseconds", " within 100 milliseconds", " within 1 sec")
    return text + (within if form < 2 or kinds[-1] != "optional" else ""), named


def _parted(kinds: list[str]) -> list[str]:
    """With something between two elements that only wait."""
    waits, parted = ("away", "not for"), list(kinds)
    for at in range(len(kinds) - 1, 0, -1):
        if kinds[at] in waits and kinds[at - 1] in waits:
            parted.insert(at, "plain")
    return parted


def succession(m: Maker, streams: tuple[str, ...], target: str) -> str:
    """A sequence with logical elements, and such that must not come."""
    return _selected(m, target, *_succession(m, streams))


def lull(m: Maker, streams: tuple[str, ...], target: str) -> str:
    """The same with elements that wait for absences by the clock."""
    return _selected(m, target, *_succession(m, streams, timed=True)).replace("eventTimestamp()", "1")


def _succession(m: Maker, streams: tuple[str, ...], timed: bool = False) -> tuple[str, tuple[str, ...]]:
    """A sequence, and what of its events may be selected."""
    logical = ("and", "and", "or", "not")
    kinds = [m.one("plain", "plain", "count", *logical)]
    kinds += [m.one("plain", "plain", "count", "optional", *logical) for _ in range(m.number(0, 2))]
    kinds.append(m.one("plain", "plain", *logical))
    if timed:
        kinds = [m.one("plain", "count", "away", "not for", *logical) for _ in range(m.number(1, 2))]
        kinds.append(m.one("plain", "plain", "away", "away", *logical))
        if not {"away", "not for"} & set(kinds):
            kinds[m.number(0, len(kinds) - 2)] = m.one("away", "not for")
        if set(kinds) <= {"away", "not for"}:  # whose events nobody can select
            kinds.insert(m.number(0, len(kinds)), "plain")
        kinds = _parted(kinds)
        for at in [at for at, kind in enumerate(kinds[:-1]) if kind == "count"]:  # what may bind no event goes on rows
            kinds[at + 1] = "away" if kinds[at + 1] == "not for" else kinds[at + 1]
            if kinds[at + 1] == "away" and at + 2 < len(kinds):
                kinds[at + 2] = "plain"
    elif not set(logical) & set(kinds):
        kinds[m.number(0, len(kinds) - 1)] = m.one(*logical)
    units, named = _units(m, streams, kinds, timed, ("+", "<1:2>", "<2:3>", "<1:3>"), ("*", "?", "<0:2>"))
    every = m.one("every ", "every ", "every ", "")
    if kinds[0] in ("not", "not for") and {"count", "optional", *logical, "not for"} & set(kinds[1:]):
        every = ""  # copies that keep what counted or logical elements bound go on rows
    within = m.one("", "", " within 30 milliseconds", " within 100 milliseconds", " within 1 sec")
    return every + ", ".join(units) + within, named


def _units(
    m: Maker,
    streams: tuple[str, ...],
    kinds: list[str],
    timed: bool,
    counts: tuple[str, ...] = ("<1:>", "<1:2>", "<2:3>", "<2>", "<3:>"),
    optional: tuple[str, ...] = ("<0:>", "<0:2>", "<:1>"),
) -> tuple[list[str], tuple[str, ...]]:
    """Elements of some kinds, and what of their events may be selected."""
    named: list[str] = []

    def filters(own: str, counted: bool = False) -> str:
        others = [*named, *([f"{own}[last]"] if counted else [])]
        found = []
        for _ in range(m.one(0, 0, 0, 0, 1) if timed else m.one(0, 0, 1, 1, 2)):
            value, other = m.of(_NUMBERS), m.of(tuple(others)) if others else ""
            found.append(
                m.one(f"{value} > 1", "k != 'b'", "b", f"v == {m.number(0, 2)}", f"v != {m.number(0, 2)}")
                if not other or m.rarely()
                else m.one(
                    f"{value} {m.one('>', '<', '>=', '!=')} {other}.{value}",
                    f"k == {other}.k",
                    f"{other}.v is null or v >= {other}.v",
                    f"coalesce({other}.d, 0.5) < d",
                )
            )
        return "".join(f"[{one}]" for one in found)

    slot = 0

    def element(counts: str = "", absent: bool = False) -> str:
        nonlocal slot
        slot += 1
        stream, name = m.of(streams), f"e{slot}"
        if absent:
            return f"not {stream}{filters(name)}"
        made = f"{name}={stream}{filters(name, bool(counts))}{counts}"
        named.extend([f"{name}[last]", f"{name}[0]", f"{name}[1]", f"{name}[last - 1]"] if counts else [name])
        return made

    units = []
    for at, kind in enumerate(kinds):
        follows = bool(at) and kinds[at - 1] in ("count", "optional")
        match kind:
            case "count":
                units.append(element(m.of(counts)))
            case "optional" if at + 1 < len(kinds) and kinds[at + 1] == "plain":
                units.append(element(m.of(optional)))
            case "optional" if at + 1 == len(kinds) and not follows:
                units.append(element(m.one("<0:>", "<0:2>")))
            case "and" | "or":
                units.append(f"({element()} {kind} {element()})")
            case "away":
                units.append(f"{element(absent=True)} for {m.one(*_WAITS)}")
            case "not for":
                first = f"{element(absent=True)} for {m.one(*_WAITS)}"
                other = element() if m.maybe() else f"{element(absent=True)} for {m.one(*_WAITS)}"
                units.append(f"({first} {m.one('and', 'or')} {other})")
            case "not":
                units.append(f"({element(absent=True)} and {element()})")
            case _:
                units.append(element())
    return units, tuple(named)


PATTERNS = {
    "chains": matching(chain),
    "sequences": matching(run),
    "chains that begin with two at once": matching(led),
    "any shape": matching(free),
    "any shape that waits for absences": matching(waiting, live=True),
    "sequences of any shape": matching(succession),
    "sequences that wait for absences": matching(lull, live=True),
    "sums over matches": matching(summed),
    "chains whose last element stays away": absences(),
}
"""The families of apps with patterns and sequences."""
