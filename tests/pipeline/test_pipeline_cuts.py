"""Planning of cuts: pure."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.pipeline.cutting.backlog import bounded
from nadi.pipeline.cutting.cuts import Cut, Situation, Waiting, choose_ends, plan_cut

ZERO = Cut(0, 1, 0, 0, {})
WALL = 10_000


def waiting(
    place: tuple[int, int], times: list[int], start: int = 0, high: int | None = None, known: bool = True
) -> Waiting:
    rest = np.array(times[start:], np.int64)
    return Waiting(place, start, len(times), high, rest if known else None)


def test_a_cut_survives_the_way_through_json():
    cut = Cut(3, 2, 50, 10, {(0, 1): 5, (1, 0): 7}, {(0, 1): 2}, {(1, 0): 44}, (1,))
    assert Cut.from_offset(cut.to_offset()) == cut
    without = cut.without((0, 1), 4).without((0, 1), 3)
    assert without.aside == {(0, 1): (3, 4)}
    assert Cut.from_offset(without.to_offset()) == without


def test_without_input_or_a_due_timer_there_is_no_cut():
    still = (Waiting((0, 0), 4, 4),)
    assert plan_cut(ZERO, Situation(still, WALL), 1) is None
    assert plan_cut(ZERO, Situation(still, WALL, due=WALL + 1), 1) is None


def test_a_due_timer_makes_a_cut_that_takes_nothing_and_moves_the_clock():
    before = Cut(4, 1, 500, 100, {(0, 0): 4})
    cut = plan_cut(before, Situation((Waiting((0, 0), 4, 4),), WALL, due=WALL), 2)
    assert cut is not None
    assert (cut.n, cut.epoch, cut.clock, cut.started, cut.ends) == (5, 2, WALL, 100, {(0, 0): 4})


def test_the_clock_never_goes_back():
    before = Cut(1, 1, WALL + 500, 0, {(0, 0): 0})
    cut = plan_cut(before, Situation((waiting((0, 0), [1, 2], known=False),), WALL), 1)
    assert cut is not None
    assert cut.clock == WALL + 500


def test_a_bounded_cut_stops_the_clock_at_the_last_order_time_it_takes():
    cut = plan_cut(ZERO, Situation((waiting((0, 0), [10, 20, 30]),), WALL, limit=2), 1)
    assert cut is not None
    assert (cut.clock, cut.started, cut.ends) == (20, 10, {(0, 0): 2})


def test_partitions_without_known_times_share_the_bound():
    ends = choose_ends((waiting((0, 0), [1] * 90, known=False), waiting((0, 1), [1] * 10, known=False)), 10).ends
    assert ends == {(0, 0): 9, (0, 1): 1}


def test_a_partition_seen_for_the_first_time_keeps_where_it_began():
    before = Cut(1, 1, 0, 0, {(0, 0): 3})
    cut = plan_cut(before, Situation((Waiting((0, 0), 3, 3), Waiting((0, 1), 7, 9)), WALL), 1)
    assert cut is not None
    assert cut.start_of((0, 1), before) == 7
    assert cut.start_of((0, 0), before) == 3


Times = st.lists(st.integers(0, 50), max_size=25)


@given(st.lists(Times, min_size=1, max_size=4), st.integers(1, 12))
def test_bounded_cuts_give_the_messages_in_the_order_of_one_cut(partitions: list[list[int]], limit: int):
    def run(bound: int | None) -> list[tuple[int, int, int]]:
        before, highs, seen = ZERO, {}, []
        for _ in range(200):
            states = [
                waiting((0, p), times, before.ends.get((0, p), 0), highs.get(p)) for p, times in enumerate(partitions)
            ]
            cut = plan_cut(before, Situation(states, WALL, limit=bound), 1)
            if cut is None:
                return seen
            taken = []
            for p, times in enumerate(partitions):
                for position in range(cut.start_of((0, p), before) if cut.ends else 0, cut.ends[(0, p)]):
                    highs[p] = max(highs.get(p, 0), times[position])
                    taken.append((min(highs[p], cut.clock), p, position))
            seen += sorted(taken)
            before = cut
        raise AssertionError("cuts without end")

    assert run(limit) == run(None)


@pytest.mark.parametrize("limit", [1, 3, None])
def test_order_times_never_pass_the_clock_of_their_cut(limit: int | None):
    cut = plan_cut(ZERO, Situation((waiting((0, 0), [5, 90_000, 7]),), 1_000, limit=limit), 1)
    assert cut is not None
    assert cut.clock <= 1_000


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=25).map(sorted), min_size=1, max_size=4),
    st.integers(1, 12),
    st.booleans(),
)
def test_a_backlog_of_unknown_times_is_taken_in_their_order(partitions: list[list[int]], limit: int, indexed: bool):
    def later_than(place: tuple[int, int], time: int, end: int) -> int | None:
        return min(end, bisect_right(partitions[place[1]], time)) if indexed else None

    def time_at(place: tuple[int, int], position: int, end: int) -> int | None:
        return partitions[place[1]][position] if position < end else None

    before, seen, clocks = ZERO, [], []
    for _ in range(200):
        states = tuple(
            waiting((0, p), times, before.ends.get((0, p), 0), known=False) for p, times in enumerate(partitions)
        )
        size = sum(w.end - w.start for w in states)
        horizon = None
        if size > limit:
            states, horizon = bounded(states, limit, time_at, later_than)
        cut = plan_cut(before, Situation(states, WALL, horizon), 1)
        if cut is None:
            break
        taken = [
            times[position]
            for p, times in enumerate(partitions)
            for position in range(before.ends.get((0, p), 0), cut.ends[(0, p)])
        ]
        assert taken
        assert max(taken) <= cut.clock
        assert not clocks or min(taken) >= clocks[-1]
        clocks.append(cut.clock)
        seen += taken
        before = cut
    assert len(seen) == sum(map(len, partitions))


def test_a_backlog_of_one_time_is_taken_in_cuts_as_large_as_they_may_be():
    sizes, limit = (10_000, 500, 10_000, 9_000), 1_000
    before, cuts = ZERO, 0
    while sum(before.ends.values()) < sum(sizes):
        states = tuple(
            waiting((0, p), [50] * size, before.ends.get((0, p), 0), known=False) for p, size in enumerate(sizes)
        )
        states, horizon = bounded(states, limit, lambda _place, position, end: 50 if position < end else None)
        cut = plan_cut(before, Situation(states, WALL, horizon), 1)
        assert cut is not None
        before, cuts = cut, cuts + 1
    assert cuts <= 2 * sum(sizes) / limit
