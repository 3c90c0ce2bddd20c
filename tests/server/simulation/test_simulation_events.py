"""The order in which events of several sources come, and when they are due."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from nadi.server.simulation.events import UNSET, Event, merged
from nadi.server.simulation.pace import BEHIND, MOST, Pace


def events(stream: str, stamps: list[int]) -> list[Event]:
    return [Event(stamp, "A", stream, (n,)) for n, stamp in enumerate(stamps)]


SOURCES = st.lists(st.lists(st.integers(0, 50), max_size=12), max_size=5)


@given(SOURCES, st.one_of(st.just(UNSET), st.integers(0, 60)), st.one_of(st.just(UNSET), st.integers(0, 40)))
def test_the_next_event_is_always_the_least_of_those_that_come_next(
    stamps: list[list[int]], end: int, bound: int
) -> None:
    sources = [events(f"S{i}", each) for i, each in enumerate(stamps)]
    heads = [list(source) for source in sources]
    found = list(merged(sources, end, bound))
    for event in found:
        least = min(h[0].timestamp for h in heads if h and (end == UNSET or h[0].timestamp <= end))
        first = next(h for h in heads if h and h[0].timestamp == least)  # of equal ones the first source's
        assert first.pop(0) == event
    if bound == UNSET:  # a source that is exhausted, or behind the end, does not end the others
        assert all(not h or (end != UNSET and h[0].timestamp > end) for h in heads)
    else:
        assert len(found) <= bound


@given(SOURCES)
def test_what_is_ordered_stays_so_and_nothing_is_lost(stamps: list[list[int]]) -> None:
    sources = [events(f"S{i}", sorted(each)) for i, each in enumerate(stamps)]
    found = list(merged(sources))
    assert [e.timestamp for e in found] == sorted(s for each in stamps for s in each)
    for source in sources:
        assert [e for e in found if source and e.stream == source[0].stream] == source


def test_an_exhausted_source_does_not_end_one_that_has_no_end():
    endless: Iterator[Event] = (Event(n, "A", "T", ()) for n in count(0, 10))
    found = list(islice(merged([endless, events("S", [5])]), 5))
    assert [(e.stream, e.timestamp) for e in found] == [("T", 0), ("S", 5), ("T", 10), ("T", 20), ("T", 30)]


@given(st.floats(0.001, 5.0), st.lists(st.floats(0.0, 0.9), max_size=30))
def test_events_are_never_early_and_all_that_are_due_are_taken(interval: float, steps: list[float]) -> None:
    pace = Pace(interval, 100.0, 100.0)
    now, sent = 100.0, 0
    for step in steps:
        now += step
        count_due = pace.take(now)
        sent += count_due
        assert sent <= (now - 100.0) / interval + 1 + 1e-6
        if count_due < MOST:
            assert pace.due > now - 1e-9


def test_a_feed_that_is_far_behind_does_not_send_all_of_it_at_once():
    pace = Pace(0.1, 0.0, 0.0)
    assert pace.take(1_000.0) == round(BEHIND / 0.1) + 1


def test_a_fast_feed_looks_twenty_times_a_second_and_a_slow_one_when_an_event_is_due():
    fast, slow = Pace(0.001, 0.0, 0.0), Pace(2.0, 0.0, 0.0)
    assert fast.take(0.0) == slow.take(0.0) == 1
    assert (fast.next, slow.next) == (0.05, 2.0)
    assert fast.take(0.05) == 50


def test_without_an_interval_as_many_are_due_as_go_together():
    pace = Pace(0.0, 0.0, 0.0)
    assert (pace.take(3.0), pace.next) == (MOST, 3.0)
