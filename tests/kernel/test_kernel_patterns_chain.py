"""A chain of plain elements gives what the machine for all patterns gives, for any order of timestamps, and across any dump and delta."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from patternrig import Rig, compare, const, every, many, one, v

from nadi.kernel.rows.patterns import ChainRuntime, StateRuntime
from nadi.plan import nodes

Events = list[tuple[str, list[int], int, str]]
"""Stream, values of the events of one chunk, timestamp, flow key."""

EVENTS = st.lists(
    st.tuples(
        st.sampled_from("AB"),
        st.lists(st.integers(0, 4), min_size=1, max_size=3),
        st.integers(0, 60),
        st.sampled_from(["", "x"]),
    ),
    max_size=40,
)


@st.composite
def chains(draw: st.DrawFn) -> tuple[nodes.StateElement, ...]:
    """Two to four elements over two streams, some with conditions on the event alone, on earlier and on later slots."""
    width = draw(st.integers(2, 4))
    elements: list[nodes.StateElement] = [_element(draw, slot, width) for slot in range(width)]
    form = draw(st.sampled_from(["first", "all", ""]))
    if form == "first":
        return (every(elements[0]), *elements[1:])
    return (every(*elements),) if form == "all" else tuple(elements)


def _element(draw: st.DrawFn, slot: int, width: int) -> nodes.StreamElement:
    conditions: list[nodes.Expr] = []
    if draw(st.booleans()):
        conditions.append(compare(v(slot), draw(st.sampled_from([">", "!="])), const(draw(st.integers(0, 3)))))
    if draw(st.booleans()):
        other = draw(st.integers(0, width - 1).filter(lambda s: s != slot))
        conditions.append(compare(v(slot), draw(st.sampled_from([">", ">=", "<", "!="])), v(other)))
    return one(slot, draw(st.sampled_from("AB")), *conditions)


def feed(rig: Rig, events: Events) -> None:
    for stream, values, ts, key in events:
        rig.until(max(rig.flow.now, ts))
        rig.at(ts, *(f"{stream}{value}" for value in values), key=key)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(chain=chains(), events=EVENTS, within=st.sampled_from([None, 5, 20]))
@example(  # a late match behind one that is not stays, once it is pending
    chain=(every(one(0, "A")), one(1, "B", compare(v(1), ">", v(0)))),
    events=[("A", [1], 30, ""), ("B", [0], 30, ""), ("A", [2], 10, ""), ("B", [1], 28, ""), ("B", [4], 32, "")],
    within=20,
)
def test_a_chain_gives_what_the_machine_for_all_patterns_gives(
    chain: tuple[nodes.StateElement, ...], events: Events, within: int | None
) -> None:
    light, general = Rig(*chain, within=within), Rig(*chain, within=within, general=True)
    assert isinstance(light.runtime, ChainRuntime)
    assert isinstance(general.runtime, StateRuntime)
    feed(light, events)
    feed(general, events)
    assert (light.seen, light.times, light.waiting) == (general.seen, general.times, general.waiting)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    chain=chains(),
    events=EVENTS,
    within=st.sampled_from([None, 5, 20]),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    whole=st.booleans(),
)
def test_a_chain_goes_on_from_a_dump_and_from_deltas_as_if_nothing_had_happened(
    chain: tuple[nodes.StateElement, ...], events: Events, within: int | None, cuts: list[int], whole: bool
) -> None:
    steady = Rig(*chain, within=within)
    feed(steady, events)
    rig, at = Rig(*chain, within=within), 0
    base, deltas = list(rig.flow.store.dump()), []
    for cut in sorted(cuts):
        feed(rig, events[at:cut])
        at = max(at, cut)
        other = Rig(*chain, within=within)
        deltas.append(rig.flow.store.delta())
        other.flow.store.load(list(rig.flow.store.dump()) if whole else [*base, *deltas])
        other.take_over(rig)
        rig = other
    feed(rig, events[at:])
    assert (rig.seen, rig.times, rig.waiting) == (steady.seen, steady.times, steady.waiting)


def test_what_is_more_than_a_chain_runs_on_the_machine_for_all_patterns() -> None:
    a, b = one(0, "A"), one(1, "B")
    for elements in ((every(a),), (many(a, 1, 2), b), (a, every(b)), (every(every(a), b),)):
        assert isinstance(Rig(*elements).runtime, StateRuntime)
    assert isinstance(Rig(every(a), b, sequence=True).runtime, StateRuntime)
    assert isinstance(Rig(every(a), b, within=10, compat=4).runtime, StateRuntime)
    assert isinstance(Rig(every(a), b).runtime, ChainRuntime)


def test_a_delta_of_a_chain_holds_what_came_and_went_and_not_what_waits() -> None:
    rig = Rig(every(one(0, "A")), one(1, "B", compare(v(1), "==", v(0))))
    rig.send(" ".join(f"A{n}" for n in range(1000)))
    rig.flow.store.delta()
    rig.send("A5000 B17")
    assert len(rig.flow.store.delta()) < 100
    assert rig.waiting == 1001


@pytest.mark.parametrize("gone", [0, 3])
def test_a_chain_forgets_what_ran_out_of_within(gone: int) -> None:
    rig = Rig(every(one(0, "A")), one(1, "B"), within=25)
    rig.send("A1 A2 A3")
    assert rig.send("B9" if not gone else " ".join(["C0"] * gone) + " B9") == (["2 9", "3 9"] if not gone else [])
    assert rig.waiting == 1
