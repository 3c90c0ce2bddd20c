"""The machine of patterns, against the tables of semantics/patterns.md."""

from __future__ import annotations

import pytest
from patternrig import Rig, absent, both, compare, const, either, every, many, one, v

A, B, C = one(0, "A"), one(1, "B"), one(2, "C")


def test_without_every_a_pattern_matches_once_ever() -> None:
    rig = Rig(A, B)
    assert rig.send("A1 A2 B10 A3 B11") == ["1 10"]
    assert rig.waiting == 0


def test_events_that_do_not_fit_are_skipped() -> None:
    rig = Rig(one(0, "A"), one(1, "A", compare(v(1), ">", v(0))))
    assert rig.send("A5 A1 A2 A7 A9") == ["5 7"]


def test_every_first_element_opens_a_match_per_event_and_one_event_completes_all_oldest_first() -> None:
    rig = Rig(every(A), B)
    assert rig.send("A1 A2 A3 B10 B11 A4 B12") == ["1 10", "2 10", "3 10", "4 12"]


def test_every_over_a_group_does_not_overlap_and_restarts_when_it_matched() -> None:
    assert Rig(every(A, B)).send("A1 A2 B10 A3 B11 B12") == ["1 10", "3 11"]


def test_every_on_the_last_element_keeps_what_was_bound_before() -> None:
    assert Rig(A, every(B)).send("A1 B10 A2 B11 B12") == ["1 10", "1 11", "1 12"]


def test_every_on_both_elements_combines_all_with_all_forever() -> None:
    assert Rig(every(A), every(B)).send("A1 B10 A2 B11") == ["1 10", "1 11", "2 11"]


def test_an_event_that_moved_a_match_is_not_offered_to_it_again() -> None:
    assert Rig(every(one(0, "A")), one(1, "A")).send("A1 A2 A3") == ["1 2", "2 3"]


def test_a_stream_that_feeds_one_element_gives_one_call_per_match() -> None:
    rig = Rig(every(A), B)
    rig.send("A1 A2 B10")
    assert rig.seen == [["1 10"], ["2 10"]]


def test_a_stream_that_feeds_several_elements_gives_one_call_with_all_matches_of_an_event() -> None:
    rig = Rig(every(one(0, "A")), one(1, "A", compare(v(1), ">", const(9))))
    rig.send("A1 A2 A10")
    assert rig.seen == [["1 10", "2 10"]]


def test_matches_of_a_chunk_are_delivered_after_the_whole_chunk() -> None:
    rig = Rig(every(A), B)
    rig.send("A1")
    rig.at(20, "B10", "B11")
    assert rig.seen == [["1 10"]]


def test_a_match_carries_the_timestamp_of_the_event_that_completes_it() -> None:
    rig = Rig(A, B)
    rig.send("A1")
    rig.at(777, "B2")
    assert rig.times == [777]


STREAM = "A1 A2 B10 A3 A4 A5 A6 B11"


@pytest.mark.parametrize(
    ("pattern", "five", "four"),
    [
        (lambda: (many(A, 2, 3), B), ["1,2 10"], ["1,2 10"]),
        (lambda: (every(many(A, 2, 3)), B), ["1,2 10", "3,4,5 11", "5,6 11"], ["1,2 10"]),
        (lambda: (every(many(A, 2, 3), B),), ["1,2 10", "3,4,5 11"], ["1,2 10"]),
        (lambda: (every(many(A, 2, 3)),), ["1,2", "3,4", "5,6"], ["1,2"]),
        (lambda: (every(one(0, "B")), many(one(1, "A"), 2, 3)), ["10 3,4"], ["10 3,4"]),
    ],
    ids=["once", "every count", "every group", "alone", "count last"],
)
def test_counted_elements_fill_up_to_their_maximum_or_until_the_next_element_matches(pattern, five, four) -> None:  # type: ignore[no-untyped-def]
    assert Rig(*pattern()).send(STREAM) == five
    assert Rig(*pattern(), compat=4).send(STREAM) == four


def test_an_optional_counted_element_passes_a_match_on_at_once() -> None:
    assert Rig(many(A, 0, 2), B).send("B10") == ["- 10"]
    assert Rig(many(A, 0, 2), B).send("A1 A2 A3 B10") == ["1,2 10"]
    assert Rig(A, many(B, 0, 2), C).send("A1 B2 C3") == ["1 2 3"]
    assert Rig(A, many(B, 0, 2), C).send("A1 C3") == ["1 - 3"]


def test_an_optional_counted_last_element_completes_without_its_event() -> None:
    assert Rig(A, many(B, 0, 2)).send("A1 B2") == ["1 -"]


def test_the_filter_of_a_counted_element_sees_its_latest_accepted_event() -> None:
    rising = many(one(0, "A", compare(v(0), ">", v(0, -1))), 2, 5)
    first = many(one(0, "A"), 1, 1)
    assert Rig(rising, B).send("A5 B0") == []  # the first has no latest one: the comparison is false
    growing = many(one(1, "A", compare(v(1), ">", v(0))), 2, 5)
    assert Rig(first, growing, one(2, "B")).send("A5 A3 A7 A9 B1") == ["5 7,9 1"]


def test_within_includes_its_end_and_drops_what_is_later() -> None:
    rig = Rig(every(A), B, within=100)
    rig.at(0, "A1")
    rig.at(50, "A2")
    rig.at(100, "B10")
    assert rig.seen == [["1 10"], ["2 10"]]
    rig = Rig(every(A), B, within=100)
    rig.at(0, "A1")
    rig.at(50, "A2")
    rig.at(101, "B10")
    assert rig.seen == [["2 10"]]


def test_within_restarts_a_group_whose_match_ran_out() -> None:
    rig = Rig(every(A, B), within=100)
    rig.at(0, "A1")
    rig.at(200, "A2")
    rig.at(250, "B10")
    assert rig.seen == [["2 10"]]


def test_a_match_out_of_time_ends_a_pattern_without_every() -> None:
    rig = Rig(A, B, within=100)
    rig.at(0, "A1")
    rig.at(200, "A2")
    rig.at(250, "B10")
    assert rig.seen == []


def test_in_siddhi_4_a_dead_match_blocks_its_group_until_its_own_element_gets_an_event() -> None:
    def run(compat: int) -> list[list[str]]:
        rig = Rig(every(A, B, C), within=100, compat=compat)
        for ts, word in [
            (0, "A1"),
            (10, "B2"),
            (500, "A3"),
            (510, "B4"),
            (520, "C5"),
            (530, "A6"),
            (540, "B7"),
            (550, "C8"),
        ]:
            rig.at(ts, word)
        return rig.seen

    assert run(5) == [["3 4 5"], ["6 7 8"]]
    assert run(4) == [["6 7 8"]]


def test_within_is_a_distance_whatever_order_the_events_come_in() -> None:
    rig = Rig(every(A), B, within=100)
    for ts, word in [(300, "A1"), (220, "A2"), (290, "A3"), (350, "B9")]:  # the second is 130 away from the last
        rig.at(ts, word)
    assert rig.seen == [["3 9"], ["1 9"]]  # by their timestamps
    rig = Rig(every(A), B, within=100)
    for ts, word in [(300, "A1"), (100, "A2"), (150, "B9")]:  # an early event makes a late match run out, too
        rig.at(ts, word)
    assert rig.seen == [["2 9"]]


def test_and_waits_for_both_in_any_order() -> None:
    pair = both(one(0, "A"), one(1, "B"))
    assert Rig(pair, C).send("A1 B2 C3") == ["1 2 3"]
    assert Rig(pair, C).send("B2 A1 C3") == ["1 2 3"]
    assert Rig(one(0, "C"), both(one(1, "A"), one(2, "B"))).send("C1 B2 A3") == ["1 3 2"]


def test_one_event_may_fill_both_operands() -> None:
    assert Rig(one(0, "B"), both(one(1, "A"), one(2, "A"))).send("B1 A2") == ["1 2 2"]
    assert Rig(both(one(0, "A"), one(1, "A"))).send("A2") == ["2 2"]


def test_or_goes_on_with_the_first_and_leaves_the_other_empty() -> None:
    assert Rig(either(one(0, "A"), one(1, "B")), C).send("B1 A2 C3") == ["- 1 3"]
    assert Rig(every(either(one(0, "A"), one(1, "B")))).send("A1 A2 B3") == ["1 -", "2 -", "- 3"]


def test_a_pattern_of_only_and_loses_completion_by_the_operand_named_first_as_siddhi_does() -> None:
    assert Rig(every(both(one(0, "A"), one(1, "B")))).send("A1 B2 A3 B4") == ["1 2", "3 4"]
    assert Rig(every(both(one(0, "A"), one(1, "B")))).send("B1 A2 A3 B4") == ["3 4"]


# ---- absence -------------------------------------------------------------------------------------------------------


def test_every_open_match_has_its_own_absence_timer() -> None:
    rig = Rig(every(A), absent(1, "B", t=1000), step=100)
    rig.send("A1 A2")
    assert rig.until(1150) == ["1 -"]
    assert rig.until(1250) == ["2 -"]
    assert rig.times == [1100, 1200]


def test_what_should_stay_away_discards_the_match() -> None:
    rig = Rig(every(A), absent(1, "B", t=1000), step=100)
    rig.send("A1 B2 A3")
    assert rig.until(5000) == ["3 -"]


def test_a_discarded_group_with_absence_at_its_end_is_dead_for_good() -> None:
    rig = Rig(every(A, absent(1, "B", t=1000)), step=100)
    rig.send("A1 B2 A3")
    assert rig.until(9000) == []


def test_a_leading_absence_counts_from_the_start_and_restarts_when_broken() -> None:
    rig = Rig(absent(0, "A", t=1000), one(1, "B"), step=100)
    assert rig.until(999) == []
    assert rig.until(1000) == []
    assert rig.send("B1") == ["- 1"]
    rig = Rig(absent(0, "A", t=1000), one(1, "B"), step=500)
    rig.send("A1 B2")
    rig.until(1600)
    assert rig.send("B3") == ["- 3"]


def test_every_leading_absence_fires_at_each_period_of_silence() -> None:
    rig = Rig(every(absent(0, "A", t=1000)))
    rig.until(3500)
    assert rig.times == [1000, 2000, 3000]
    assert rig.seen == [["-"], ["-"], ["-"]]


def test_periods_of_silence_pile_up_and_one_event_completes_all() -> None:
    rig = Rig(every(absent(0, "A", t=1000)), one(1, "B"))
    rig.until(2500)
    assert rig.send("B7") == ["- 7", "- 7"]


def test_in_playback_a_jump_runs_each_period_with_its_own_due_time() -> None:
    rig = Rig(every(absent(0, "A", t=1000)), playback=True)
    rig.until(3000)
    assert rig.times == [1000, 2000, 3000]


def test_and_not_without_time_needs_that_nothing_came_since() -> None:
    pattern = (A, both(absent(1, "B"), one(2, "C")))
    assert Rig(*pattern).send("A1 C3") == ["1 - 3"]
    assert Rig(*pattern).send("A1 B2 C3") == []


def test_and_not_with_time_is_emitted_by_whichever_is_later() -> None:
    pattern = (A, both(absent(1, "B", t=1000), one(2, "C")))
    rig = Rig(*pattern, step=100)
    assert rig.send("A1 C3") == []
    assert rig.until(1100) == ["1 - 3"]
    assert rig.times == [1100]
    rig = Rig(*pattern, step=100)
    rig.send("A1")
    assert rig.until(1200) == []
    assert rig.send("C3") == ["1 - 3"]
    rig = Rig(*pattern, step=100)
    rig.send("A1 B2 C3")
    assert rig.until(9000) == []


def test_or_not_with_time_is_emitted_by_the_event_or_by_the_timer() -> None:
    pattern = (A, either(absent(1, "B", t=1000), one(2, "C")))
    assert Rig(*pattern).send("A1 C3") == ["1 - 3"]
    rig = Rig(*pattern, step=100)
    rig.send("A1")
    assert rig.until(1100) == ["1 - -"]
    rig = Rig(*pattern, step=100)
    assert rig.send("A1 B2") == []
    assert rig.until(3000) == []
    assert rig.send("C3") == ["1 - 3"]


def test_in_siddhi_4_the_timer_of_an_operand_keeps_the_timestamp_of_the_event_before() -> None:
    rig = Rig(A, either(absent(1, "B", t=1000), one(2, "C")), compat=4, step=100)
    rig.send("A1")
    rig.until(2000)
    assert rig.times == [100]


def test_the_operand_that_must_stay_away_may_be_written_second() -> None:
    rig = Rig(A, both(one(1, "C"), absent(2, "B", t=1000)), step=100)
    rig.send("A1 C3")
    assert rig.until(1100) == ["1 3 -"]


def test_a_leading_operand_that_must_stay_away_waits_anew_when_it_came() -> None:
    rig = Rig(every(both(absent(0, "A", t=1000), one(1, "B"))), one(2, "C"), step=100)
    rig.send("A1 B2")
    rig.until(1099)
    rig.at(1099, "C3")
    assert rig.seen == []
    rig.until(1100)
    assert rig.send("C4") == ["- 2 4"]


def test_two_absences_both_have_to_hold() -> None:
    pattern = (A, both(absent(1, "B", t=1000), absent(2, "C", t=1000)))
    rig = Rig(*pattern, step=100)
    rig.send("A1")
    assert rig.until(1500) == ["1 - -"]
    rig = Rig(*pattern, step=100)
    rig.send("A1 C2")
    assert rig.until(5000) == []


# ---- keys and state ------------------------------------------------------------------------------------------------


def test_keys_do_not_see_each_other() -> None:
    rig = Rig(every(A), B)
    rig.send("A1", key="x")
    rig.send("A2", key="y")
    assert rig.send("B10", key="y") == ["2 10"]
    assert rig.send("B11", key="x") == ["1 11"]


def test_a_dropped_key_begins_anew() -> None:
    rig = Rig(A, B)
    rig.send("A1", key="x")
    rig.runtime._state.drop("x")
    assert rig.send("B10 A2 B11", key="x") == ["2 11"]


def test_a_delta_grows_with_what_changed_and_not_with_what_waits() -> None:
    rig = Rig(every(A), B)
    rig.send(" ".join(f"A{i}" for i in range(500)))
    assert len(rig.flow.store.delta()) > 5000
    rig.send("A1")
    assert len(rig.flow.store.delta()) < 300
