"""Whatever is dumped and loaded, and wherever, patterns and sequences go on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patternrig import Rig, absent, both, compare, either, every, many, one, v

from nadi.kernel.rows.events import Event
from nadi.kernel.rows.patterns.matches import Matches
from nadi.kernel.rows.payloads import encode_entries, entries_of
from nadi.persistence.rewrites import _of_chain
from nadi.plan import nodes

A, B, C = one(0, "A"), one(1, "B"), one(2, "C")
Pattern = tuple[nodes.StateElement, ...]

PATTERNS: dict[str, tuple[Callable[[], Pattern], bool]] = {
    "every": (lambda: (every(A), one(1, "B", compare(v(1), ">", v(0))), C), False),
    "group": (lambda: (every(A, every(B)), C), False),
    "count": (lambda: (every(many(A, 2, 4)), B, many(C, 0, 2)), False),
    "count and plain ones": (lambda: (every(many(A, 1, 3)), B, C), False),
    "same stream": (lambda: (every(one(0, "A")), many(one(1, "A", compare(v(1), ">", v(1, -1))), 1, 3), C), False),
    "and": (lambda: (every(both(A, B), C),), False),
    "or": (lambda: (every(either(A, B)), C), False),
    "absence": (lambda: (every(A), absent(1, "B", t=25), C), False),
    "leading absence": (lambda: (every(absent(0, "A", t=25)), B, C), False),
    "absent operand": (lambda: (every(A), either(absent(1, "B", t=25), C)), False),
    "absent and": (lambda: (every(both(absent(0, "A", t=25), B)), C), False),
    "sequence": (lambda: (every(many(A, 0, None)), B, many(C, 0, 1)), True),
    "sequence and": (lambda: (every(A), both(B, C)), True),
    "sequence counts and": (
        lambda: (every(many(A, 0, None)), many(one(1, "A"), 0, None), both(one(2, "C"), one(3, "A"))),
        True,
    ),
    "sequence absence": (lambda: (every(A), absent(1, "B", t=25), C), True),
}

Words = list[tuple[str, int, str, int]]
words = st.lists(
    st.tuples(
        st.sampled_from("ABC"), st.integers(1, 5), st.sampled_from(["", "x", "y"]), st.sampled_from([0, 1, 10, 30])
    ),
    max_size=40,
)


def make(name: str, within: int | None) -> Rig:
    elements, sequence = PATTERNS[name]
    return Rig(*elements(), sequence=sequence, within=within)


def feed(rig: Rig, events: Words) -> None:
    for stream, value, key, pause in events:
        rig.until(rig.flow.now + pause)
        rig.at(rig.flow.now, f"{stream}{value}", key=key)


@pytest.mark.parametrize("name", PATTERNS)
@settings(max_examples=60, deadline=None)
@given(events=words, cuts=st.lists(st.integers(0, 40), max_size=3), within=st.sampled_from([None, 15]))
def test_dump_and_load_anywhere_change_nothing(name: str, events: Words, cuts: list[int], within: int | None) -> None:
    whole = make(name, within)
    feed(whole, events)
    rig, at = make(name, within), 0
    for cut in sorted({min(c, len(events)) for c in cuts}):
        feed(rig, events[at:cut])
        after = make(name, within)
        rig.move_to(after)
        rig, at = after, cut
    feed(rig, events[at:])
    assert (rig.seen, rig.times) == (whole.seen, whole.times)
    assert rig.waiting == whole.waiting


@pytest.mark.parametrize("name", PATTERNS)
@settings(max_examples=60, deadline=None)
@given(events=words, sizes=st.lists(st.integers(1, 7), min_size=1, max_size=10), within=st.sampled_from([None, 15]))
def test_a_base_and_its_deltas_are_the_state(name: str, events: Words, sizes: list[int], within: int | None) -> None:
    rig = make(name, within)
    state: list[object] = list(rig.flow.store.dump())
    at = 0
    for size in sizes:
        feed(rig, events[at : at + size])
        at += size
        state.append(rig.flow.store.delta())
    again = make(name, within)
    again.flow.store.load(state)  # type: ignore[arg-type]  # segments and deltas
    again.take_over(rig)
    feed(rig, events[at:])
    feed(again, events[at:])
    assert (again.seen, again.times) == (rig.seen, rig.times)


def test_matches_that_are_over_are_forgotten() -> None:
    rig = Rig(every(A), B, C)
    for _ in range(50):
        rig.send("A1 B2 C3")
    assert len(rig.seen) == 50
    assert rig.waiting == 1


def test_a_match_that_reached_a_half_complete_and_twice_is_as_gone_after_a_load_as_before() -> None:
    whole, restarted = make("sequence counts and", None), make("sequence counts and", None)
    for word in ("A1", "A2", "A3", "A4", "C5", "C6", "C7"):
        whole.send(word)
        restarted.send(word)
        after = make("sequence counts and", None)
        restarted.move_to(after)
        restarted = after
    assert restarted.seen == whole.seen != []
    assert restarted.waiting == whole.waiting


def test_matches_of_version_1_come_back_also_with_more_attributes() -> None:
    old = {"matches": ["p", True, 1, 3, [], [[1, [[0, [0, 5, 1]], [2, [0, 6, 2]]]], [0, [[1, [0, 4, 1], [0, 7, 8]]]]]]}
    widened = _of_chain(old, [lambda row: (*row, None)] * 3)
    found = []
    for cells in (old, widened):
        matches = Matches(3, lambda: None)
        ((_element, _key, read),) = entries_of(encode_entries([("", "k", cells)]))
        matches.apply(read["matches"])
        found.append([place.held for place in matches.places])
        again = Matches(3, lambda: None)
        again.apply(matches.content())
        assert [(p.held, p.moved, p.newest, p.top) for p in again.places] == [
            (p.held, p.moved, p.newest, p.top) for p in matches.places
        ]
    one, two = Event(0, 5, (1,)), Event(0, 6, (2,))
    assert found[0] == [
        {0: ((one,), None, None), 2: ((two,), None, None)},
        {1: ((Event(0, 4, (1,)),), (Event(0, 7, (8,)),), None)},
    ]
    assert found[1][0] == {0: ((Event(0, 5, (1, None)),), None, None), 2: ((Event(0, 6, (2, None)),), None, None)}
    assert all(type(bound[0]) is Event for held in found[0] for match in held.values() for bound in match if bound)
