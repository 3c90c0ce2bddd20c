"""Finding 13: a state of the rows kernel that was tampered with is loaded, or is a named error; its cells take what cells of their kind have written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.contract import Segment
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.events import CURRENT, Event
from nadi.kernel.rows.messagepack import ENCODER
from nadi.kernel.rows.payloads import encode_entries
from nadi.kernel.rows.state import Deque, Map, Store, Value
from nadi.plan import plan_app

TEXT = """define stream S (k string, v int);
from S#window.time(1 sec) select k, sum(v) as s group by k insert into Sums;
from every a=S -> b=S[v > a.v] within 1 sec select a.k as k, b.v as v insert into Rises;
from S select k, v output last every 300 milliseconds insert into Lasts;
"""


REGISTRY = default_registry()
PLAN = plan_app(TEXT, REGISTRY)


def kernel() -> RowsKernel:
    return RowsKernel(PLAN, REGISTRY)


def dumped() -> list[Segment]:
    made = kernel()
    made.start(0)
    for n, key in enumerate("abca"):
        made.deliver("S", [Event(CURRENT, n, (key, n))])
    return list(made.dump())


GOOD = dumped()
PLACES = [(at, place) for at, segment in enumerate(GOOD) for place in range(len(segment.payload))]


def store() -> Store:
    made = Store(len)
    made.element("e", {"value": Value, "queue": Deque, "map": Map})
    return made


@settings(max_examples=300, deadline=None)
@given(where=st.sampled_from(PLACES), by=st.integers(1, 255), ends=st.booleans())
def test_any_byte_that_was_changed_and_any_end_that_was_lost_is_loaded_or_named(
    where: tuple[int, int], by: int, ends: bool
) -> None:
    at, place = where
    segment, payload = GOOD[at], bytearray(GOOD[at].payload)
    payload[place] ^= by
    changed = bytes(payload[:place] if ends else payload)
    state = [*GOOD[:at], Segment(segment.element, segment.group, changed), *GOOD[at + 1 :]]
    assert condition(state) in ("", "STATE_NOT_READABLE")


def condition(state: list[Segment]) -> str:
    """The name of the error that loading a state is, "" where it is loaded."""
    try:
        kernel().load(state)
    except NadiError as named:
        return named.condition
    return ""


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("value", ("m", False, [], [])),
        ("queue", ("v", 5)),
        ("queue", ("d", 1, [])),
        ("queue", ("d", -1, [])),
        ("map", ("d", 0, [])),
        ("map", ("m", False, [1], [])),
        ("map", ("m", False, [([], 1)], [])),
    ],
)
def test_a_cell_that_is_told_what_another_kind_of_cell_wrote_or_what_it_does_not_hold_is_a_named_error(
    name: str, change: tuple[object, ...]
) -> None:
    with pytest.raises(NadiError, match="STATE_NOT_READABLE"):
        store().load([Segment("e", 0, encode_entries([("", "k", {name: change})]))])


@pytest.mark.parametrize(
    ("keys", "at", "of_cell"), [(["k"], 2, 1), (["k"], -1, 1), (["k"], [-1], 1), (["k"], 1, [0, -1]), (["k"], 1, [-1])]
)
def test_a_key_that_is_a_place_that_there_is_not_is_a_named_error(keys: list[str], at: object, of_cell: object) -> None:
    payload = ENCODER.encode([2, False, keys, [["", 0, at, [["value", of_cell, "v", ["="], [5]]]]]])
    with pytest.raises(NadiError, match="STATE_NOT_READABLE"):
        store().load([Segment("e", 0, payload)])


@pytest.mark.parametrize("clock", ["now", (1,), (1, 2, 3), ("a", 2), (1.5, 2)])
def test_clocks_that_are_none_are_a_named_error(clock: object) -> None:
    with pytest.raises(NadiError, match="STATE_NOT_READABLE"):
        kernel().load([Segment("app/clock", 0, encode_entries([("", "", {"now": ("v", clock)})]))])


def test_what_the_reading_of_a_state_meets_is_no_error_of_the_state() -> None:
    def lost() -> object:
        yield GOOD[0]
        raise OSError("the store is away")

    with pytest.raises(OSError, match="the store is away"):
        kernel().load(lost())  # type: ignore[arg-type]
