"""What is remembered of messages, held against a model that remembers everything."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from nadi.io import seen as seen_module
from nadi.io.numberranges import NumberRanges
from nadi.io.seen import Bounds, GapMark, KeyMark, Mark, NumberMark, Outcome, PlaceMark, Seen, Segment, newest_of

HOUR = 3_600_000
TAKEN, REPEATED, REUSED = Outcome.TAKEN, Outcome.REPEATED, Outcome.REUSED


def outcome(seen: Seen, mark: Mark, time: int = 0, body: bytes = b"") -> Outcome:
    return seen.take(mark, time, body)[0]


def copied(seen: Seen, segments: list[Segment]) -> Seen:
    """What another process has that reads the segments."""
    other = Seen(seen._bounds)
    for segment in segments:
        other.load(msgspec.msgpack.decode(msgspec.msgpack.encode(segment), type=Segment))
    return other


# ---- numbers


@given(st.lists(st.integers(0, 30), max_size=120))
def test_each_number_is_taken_the_first_time_it_comes_in_whatever_order(numbers: list[int]) -> None:
    ranges, taken = NumberRanges(), set[int]()
    for at, number in enumerate(numbers):
        assert ranges.take(number, number + 1, at) == (number not in taken)
        taken.add(number)
        missing = set(range(min(taken), max(taken))) - taken
        assert {n for first, end in ranges.lost(10**9, 0, 0) for n in range(first, end)} == missing
        ranges = NumberRanges.of(msgspec.msgpack.decode(msgspec.msgpack.encode(ranges.plain())))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.data())
def test_messages_of_several_rows_are_known_by_their_numbers(counts: list[int], data: st.DataObject) -> None:
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    messages = [(end - count, end) for end, count in zip(ends, counts, strict=True)]
    ranges, taken = NumberRanges(), set[tuple[int, int]]()
    for first, end in data.draw(st.lists(st.sampled_from(messages), max_size=60)):
        assert ranges.take(first, end, 0) == ((first, end) not in taken)
        taken.add((first, end))
    if taken == set(messages):
        assert ranges.plain() == [0, ends[-1], [], {}]


@given(st.permutations(range(12)), st.permutations(range(12)), st.lists(st.booleans(), min_size=24, max_size=24))
def test_what_comes_through_two_centres_is_taken_once_however_they_interleave(
    one: list[int], two: list[int], order: list[bool]
) -> None:
    queues = {0: one[::-1], 1: two[::-1]}
    places = {0: 0, 1: 0}
    seen, taken = Seen(Bounds()), list[int]()
    for first in [*order, True, False] * 24:
        centre = 0 if (first and queues[0]) or not queues[1] else 1
        if not queues[centre]:
            break
        number = queues[centre].pop()
        mark = NumberMark("shop", "a", number, 1, centre, 0, places[centre])
        places[centre] += 1
        if outcome(seen, mark) is TAKEN:
            taken.append(number)
        seen = copied(seen, seen.segments(0, 0))
    assert sorted(taken) == list(range(12))
    assert (seen.position(0, 0), seen.position(1, 0)) == (12, 12)


def test_a_gap_is_told_when_all_centres_have_gone_past_it_and_only_once() -> None:
    seen = Seen(Bounds())
    for centre, numbers in ((0, (1, 2, 5)), (1, (1, 2))):
        for place, number in enumerate(numbers):
            outcome(seen, NumberMark("shop", "a", number, 1, centre, 0, place), time=1_000)
    assert list(seen.gaps(1_001, 60_000, 2)) == []  # the other centre may still bring them
    assert seen.next_gap(60_000) == 61_000
    outcome(seen, NumberMark("shop", "a", 4, 1, 1, 0, 2), time=2_000)
    (gap,) = seen.gaps(2_001, 60_000, 2)
    assert gap == GapMark("shop", "a", 3, 4)
    assert outcome(seen, gap) is TAKEN
    assert outcome(seen, gap) is REPEATED
    assert list(seen.gaps(10**9, 60_000, 2)) == []
    assert seen.next_gap(60_000) is None
    assert outcome(seen, NumberMark("shop", "a", 3, 1, 1, 0, 3), time=3_000) is TAKEN  # it comes after all


def test_a_gap_that_a_silent_centre_may_still_fill_is_told_after_a_while() -> None:
    seen = Seen(Bounds())
    for place, number in enumerate((1, 3)):
        outcome(seen, NumberMark("shop", "a", number, 1, 0, 0, place), time=1_000)
    assert list(seen.gaps(60_999, 60_000, 2)) == []
    assert list(seen.gaps(61_000, 60_000, 2)) == [GapMark("shop", "a", 2, 3)]


def test_numbers_before_those_that_a_reader_began_with_are_taken_and_nobody_misses_them() -> None:
    seen = Seen(Bounds())
    assert outcome(seen, NumberMark("shop", "a", 100)) is TAKEN
    assert list(seen.gaps(10**9, 0, 0)) == []
    assert outcome(seen, NumberMark("shop", "a", 98)) is TAKEN
    assert outcome(seen, NumberMark("shop", "a", 98)) is REPEATED
    assert list(seen.gaps(10**9, 0, 0)) == [GapMark("shop", "a", 99, 100)]


def test_a_publisher_that_begins_anew_with_another_incarnation_loses_nothing() -> None:
    seen = Seen(Bounds())
    assert [outcome(seen, NumberMark("shop", life, n)) for life in "ab" for n in (1, 2, 3)] == [TAKEN] * 6
    assert [outcome(seen, NumberMark("shop", "a", n)) for n in (1, 2, 3, 4)] == [REPEATED] * 3 + [TAKEN]


def test_a_publisher_without_incarnations_that_goes_back_to_the_beginning_has_a_new_one_in_each_centre() -> None:
    seen = Seen(Bounds())
    came = [1, 2, 3, 1, 2, 3, 4, 1, 2]

    def through(centre: int, start: int, end: int) -> list[Outcome]:
        marks = [NumberMark("shop", None, came[i], 1, centre, 0, i) for i in range(start, end)]
        return [outcome(seen, mark) for mark in marks]

    assert through(0, 0, 5) == [TAKEN] * 5
    assert through(1, 0, 4) == [REPEATED] * 4
    seen = copied(seen, seen.segments(0, 0))
    assert through(1, 4, 9) == [REPEATED, TAKEN, TAKEN, TAKEN, TAKEN]
    assert through(0, 5, 9) == [REPEATED] * 4


def test_a_place_of_a_centre_is_read_once() -> None:
    seen = Seen(Bounds())
    assert [outcome(seen, PlaceMark(0, 0, n)) for n in (0, 1, 1, 0, 2)] == [TAKEN, TAKEN, REPEATED, REPEATED, TAKEN]
    assert outcome(seen, NumberMark("shop", "a", 9, 1, 0, 0, 1)) is REPEATED  # it is behind what was read
    assert outcome(seen, NumberMark("shop", "a", 9, 1, 0, 0, 3)) is TAKEN


def test_publishers_that_were_silent_for_the_longest_time_are_forgotten_first() -> None:
    seen = Seen(Bounds(size=200))
    for number, name in enumerate(("one", "two", "one", "six")):
        outcome(seen, NumberMark(name, "", number))
    seen = copied(seen, seen.segments(0, 0))
    assert outcome(seen, NumberMark("one", "", 0)) is REPEATED
    assert outcome(seen, NumberMark("two", "", 1)) is TAKEN


@given(st.lists(st.tuples(st.text("ab", min_size=1), st.integers(0, 300)), max_size=200))
def test_what_is_known_of_publishers_fits_into_its_bound(given_: list[tuple[str, int]]) -> None:
    seen = Seen(Bounds(size=1_000))
    for name, number in given_:
        outcome(seen, NumberMark(name, None, number))
        (segment,) = seen.segments(0, 0)
        assert len(msgspec.msgpack.encode(segment)) <= max(1_000, 100 + 2 * len(name) + 24 * 300)
        again = copied(seen, [segment])
        assert again.segments(0, 0) == [segment]
        assert again._size == seen._size


# ---- keys


def test_a_key_counts_once_and_means_one_message() -> None:
    seen = Seen(Bounds())
    assert outcome(seen, KeyMark("k"), 1, b"one") is TAKEN
    assert outcome(seen, KeyMark("k"), 2, b"one") is REPEATED
    assert outcome(seen, KeyMark("k"), 2, b"two") is REUSED
    assert outcome(seen, KeyMark("K"), 3, b"one") is TAKEN


def test_keys_are_forgotten_after_the_window_and_when_there_are_too_many() -> None:
    seen = Seen(Bounds(window=HOUR, keys=3))
    assert outcome(seen, KeyMark("a"), 0) is TAKEN
    assert outcome(seen, KeyMark("a"), HOUR - 1) is REPEATED
    assert outcome(seen, KeyMark("a"), HOUR) is TAKEN
    assert [outcome(seen, KeyMark(k), HOUR) for k in "bcd"] == [TAKEN] * 3
    assert [outcome(seen, KeyMark(k), HOUR) for k in "cd"] == [REPEATED] * 2
    assert outcome(seen, KeyMark("a"), HOUR) is TAKEN


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 400)), max_size=80),
    st.sets(st.integers(0, 80)),
    st.integers(1, 3),
)
def test_what_was_seen_is_the_same_after_any_restarts(
    given_: list[tuple[str, int]], restarts: set[int], most: int
) -> None:
    """Whoever goes on reads the segments, and from where they end what the journal has: the messages that were taken."""
    bounds = Bounds(window=1_000, keys=5)
    undisturbed, seen = Seen(bounds), Seen(bounds)
    segments: list[Segment] = []
    journal: list[tuple[Mark, int, bytes]] = []
    before, now = seen_module.SEGMENT_KEYS, 0
    seen_module.SEGMENT_KEYS = most
    try:
        for at, (key, step) in enumerate(given_):
            now += step
            if at in restarts:
                if at % 2:
                    segments += seen.segments(len(journal), segments[-1].at if segments else 0)
                seen = copied(seen, segments)
                for mark, time, body in journal[segments[-1].at if segments else 0 :]:
                    seen.take(mark, time, body)
            mark, body = KeyMark(key), key.encode()
            wanted = outcome(undisturbed, mark, now, body)
            assert outcome(seen, mark, now, body) is wanted
            if wanted is TAKEN:
                journal.append((mark, now, body))
    finally:
        seen_module.SEGMENT_KEYS = before


def test_a_key_that_was_forgotten_and_came_again_does_not_keep_older_ones_when_it_is_read_back() -> None:
    seen = Seen(Bounds(window=1_000))
    for key, time in (("b", 0), ("a", 500), ("b", 1_200)):
        assert outcome(seen, KeyMark(key), time) is TAKEN
    again = copied(seen, seen.segments(0, 0))
    assert outcome(again, KeyMark("b"), 1_600) is REPEATED
    assert outcome(again, KeyMark("a"), 1_600) is TAKEN


def test_a_segment_tells_how_many_keys_it_has_and_how_old_they_are() -> None:
    seen = Seen(Bounds())
    for n in range(3):
        outcome(seen, KeyMark(str(n)), 1_000 + n)
    (segment,) = seen.segments(7, 0)
    assert (segment.at, *newest_of(segment.keys)) == (7, 3, 1_002)
    assert [newest_of(each.keys) for each in seen.segments(8, 7)] == [(0, 0)]
