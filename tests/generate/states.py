"""Patterns and sequences: counts, `and`, `or`, absence, `every`, `within`."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generate.choices import Maker, Scope, scope
from tests.generate.expressions import condition
from tests.generate.queries import rate, selection


@dataclass
class _References:
    """The elements so far that can be referred to."""

    made: int = 0
    scope: Scope = ()
    absent: bool = False  # whether the last element is an absence alone: two of them may not follow each other


def pattern(m: Maker, streams: list[str]) -> str:
    """`from every e1=S -> … select … insert into Out;`"""
    refs = _References()
    elements = [_element(m, streams, refs) for _ in range(m.number(1, 3))]
    for i, element in enumerate(elements):
        if m.rarely() or (i == 0 and not m.rarely()):
            elements[i] = (
                f"every {element}" if " and " not in element and " or " not in element else f"every ({element})"
            )
    state = " -> ".join(elements)
    if len(elements) > 1 and "every" not in state and m.maybe():
        state = f"every ({state})"
    within = f"within {m.one(20, 60)} milliseconds" if m.maybe() else ""
    return _query(m, f"{state} {within}", refs)


def sequence(m: Maker, streams: list[str]) -> str:
    """`from every e1=S, e2=S+, … select … insert into Out;`"""
    refs = _References()
    count = m.number(2, 3)
    elements = [_sequential(m, streams, refs) for _ in range(count)]
    within = f"within {m.one(20, 60)} milliseconds" if m.rarely() else ""
    return _query(m, f"{m.one('every ', 'every ', 'every ', '')}{', '.join(elements)} {within}", refs)


def _query(m: Maker, state: str, refs: _References) -> str:
    limit = rate(m)[0] if m.rarely() else ""
    if "snapshot" in limit:  # needs all events, of which a pattern has none
        limit = ""
    given = refs.scope or (("currentTimeMillis()", "long"),)
    plain = ", ".join(f"{m.of(given)[0]} as x{i}" for i in range(2))
    select = selection(m, given, ()) if m.rarely() else f"select {plain}"
    return f"from {state} {select} {limit} insert into {m.output()};"


def _stream(m: Maker, streams: list[str], refs: _References, counted: str = "") -> str:
    refs.made += 1
    name = f"e{refs.made}"
    made = f"{name}={_filtered(m, streams, refs)}{counted}"
    ways = (f"{name}[0].", f"{name}[last].") if counted else (f"{name}.",)
    for way in ways:
        refs.scope += scope(way)
    return made


def _filtered(m: Maker, streams: list[str], refs: _References) -> str:
    source = m.of(streams)
    if m.maybe():
        return source
    before = [text for text, kind in refs.scope if kind == "int"]
    if before and m.maybe():
        return f"{source}[{m.one('v > ', 'v <= ', 'v == ')}{m.of(before)}]"
    return f"{source}[{condition(m, scope())}]"


def _wait(m: Maker) -> str:
    return f"for {m.one(10, 30)} milliseconds"


def _absent(m: Maker, streams: list[str], refs: _References) -> str:
    refs.absent = True
    return f"not {_filtered(m, streams, refs)} {_wait(m)}"


def _element(m: Maker, streams: list[str], refs: _References) -> str:
    kind = m.number(0, 8)
    before, refs.absent = refs.absent, False
    match kind:
        case 0 | 1:
            return _stream(m, streams, refs, m.one("<2>", "<1:2>", "<2:>", "<:2>", "<0:2>"))
        case 2 if not before and m.maybe():
            return _absent(m, streams, refs)
        case 3:
            return f"{_stream(m, streams, refs)} {m.one('and', 'or')} {_stream(m, streams, refs)}"
        case 4:
            absent = f"not {_filtered(m, streams, refs)}"
            return f"{absent} {m.one('and', f'{_wait(m)} and', f'{_wait(m)} or')} {_stream(m, streams, refs)}"
        case _:
            return _stream(m, streams, refs)


def _sequential(m: Maker, streams: list[str], refs: _References) -> str:
    kind = m.number(0, 7)
    before, refs.absent = refs.absent, False
    match kind:
        case 0 | 1 | 2:
            return _stream(m, streams, refs, m.one("*", "+", "?", "<0:2>", "<1:2>"))
        case 3:
            return f"{_stream(m, streams, refs)} {m.one('and', 'or')} {_stream(m, streams, refs)}"
        case 4 if not before and m.maybe():
            return _absent(m, streams, refs)
        case _:
            return _stream(m, streams, refs)
