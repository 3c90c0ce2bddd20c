"""Patterns and sequences whose last element needs no event (semantics/patterns.md#counted-elements): who hears of a match there, which one is put out."""

from __future__ import annotations

import pytest
from patternrig import Rig, absent, both, compare, const, either, every, many, one, v

A, B, C = one(0, "A"), one(1, "B"), one(2, "C")


@pytest.mark.parametrize("sequence", [False, True])
def test_a_match_that_the_first_element_brings_to_the_end_is_put_out_at_once(sequence: bool) -> None:
    assert Rig(every(A), many(B, 0, 2), sequence=sequence).send("A1 B2 A3") == ["1 -", "3 -"]


def test_a_counted_first_element_brings_it_there_as_well() -> None:
    assert Rig(many(A, 2, 3), many(B, 0, 2)).send("A1 A2 A3 B4") == ["1,2 -"]


def test_a_match_that_a_later_element_brings_there_is_put_out_when_the_end_gets_an_event() -> None:
    rig = Rig(every(A), B, many(C, 0, 2))
    assert rig.send("A1 B2") == []
    assert rig.send("C3") == ["1 2 3"]
    assert rig.send("C4") == []


def test_an_event_that_does_not_fit_puts_it_out_too() -> None:
    rig = Rig(every(A), B, many(one(2, "C", compare(v(2), ">", const(5))), 0, 2))
    assert rig.send("A1 B2 C3") == ["1 2 -"]


def test_one_answer_is_given_for_all_matches_that_came_there() -> None:
    rig = Rig(every(A), B, many(C, 0, 2))
    assert rig.send("A1 A2 B3 C4 C5") == ["1 3 4"]


def test_the_first_element_answers_with_the_match_that_it_is_at() -> None:
    rig = Rig(every(A), B, many(C, 0, 2))
    assert rig.send("A1 B2 A3 C4") == ["3 - -"]


def test_the_first_element_of_a_sequence_answers_too() -> None:
    rig = Rig(every(A), B, many(C, 0, None), sequence=True)
    assert rig.send("A1 B2 C3 C4") == ["1 2 3"]
    assert rig.send("A5 B6 A7") == ["7 - -"]


def test_nobody_hears_an_answer_on_a_stream_whose_last_reader_is_not_at_the_end() -> None:
    rig = Rig(every(A), one(1, "A"), many(C, 0, 2))
    assert rig.send("A1 A2 A3 C4") == []


def test_what_an_absence_brings_there_is_put_out_with_the_next_event() -> None:
    rig = Rig(A, absent(1, "B", t=1000), many(C, 0, 2), step=100)
    rig.send("A1")
    assert rig.until(3000) == []
    assert rig.send("C2") == ["1 - 2"]


def test_a_first_element_that_must_stay_away_hears_it_and_tells_nobody() -> None:
    rig = Rig(absent(0, "A", t=1000), many(B, 0, 2), step=100)
    assert rig.until(1500) == []
    assert rig.send("B1") == ["- 1"]
    rig = Rig(every(absent(0, "A", t=1000)), many(B, 0, 2), step=100)
    rig.until(1500)
    assert rig.send("A1 B2") == []


def test_the_second_operand_of_a_first_element_tells_nobody_and_the_first_one_does() -> None:
    pair = both(one(0, "A"), one(1, "B"))
    assert Rig(pair, many(C, 0, 2)).send("B1 A2") == ["2 1 -"]
    rig = Rig(pair, many(C, 0, 2))
    assert rig.send("A1 B2") == []
    assert rig.send("C3") == ["1 2 3"]
    choice = either(one(0, "A"), one(1, "B"))
    assert Rig(choice, many(C, 0, 2)).send("A1") == ["1 - -"]
    assert Rig(choice, many(C, 0, 2)).send("B1 C2") == ["- 1 2"]


def test_a_pattern_that_needs_no_event_at_all_answers_once() -> None:
    assert Rig(many(A, 0, 2), many(B, 0, 2)).send("A1 A2 B3") == ["1 -"]
    assert Rig(many(A, 0, 2)).send("A1 A2 A3") == ["1"]


def test_a_complete_match_that_runs_out_at_the_end_starts_its_scope_anew() -> None:
    rig = Rig(every(A, many(B, 0, 2)), within=100)
    rig.at(0, "A1")
    rig.at(200, "A2")  # the first match is dropped at the end only now: two begin from here
    assert rig.seen == [["1 -"], ["2 -"], ["2 -"]]


def test_matches_do_not_pile_up_at_the_end_where_that_makes_no_difference() -> None:
    rig = Rig(every(A), many(B, 0, 2))
    rig.send("A1 A2 A3")
    assert rig.waiting == 1


def test_a_counted_element_looks_at_the_second_operand_before_the_first() -> None:
    def rig() -> Rig:
        return Rig(many(one(0, "A"), 1, 3), many(one(1, "B"), 0, 2), both(one(2, "C"), one(3, "D")), one(4, "E"))

    assert rig().send("A1 C2 A3 D4 E5") == ["1,3 - 2 4 5"]
    assert rig().send("A1 D2 A3 C4 E5") == ["1 - 4 2 5"]


def test_what_must_stay_away_and_came_ends_the_counting_before_it() -> None:
    rig = Rig(every(many(one(0, "A"), 1, 3), absent(1, "B", t=1000)), within=100)
    rig.send("A1 B2 A3")
    assert rig.waiting == 0


def test_a_scope_that_begins_with_an_operand_that_must_stay_away_starts_anew_with_what_came_behind_it() -> None:
    rig = Rig(every(both(absent(0, "A"), one(1, "B")), many(one(2, "C"), 2, 2)))
    assert rig.send("B1 C2 C3") == ["- 1 2,3"]
    assert rig.send("B4 C5 C6") == []


# ---- what runs out, and when -----------------------------------------------------------------------------------------


def test_a_match_that_ran_out_at_one_of_its_elements_is_not_put_out_by_another() -> None:
    counted = many(one(1, "B", compare(v(1), ">", v(0))), 1, None)
    rig = Rig(every(A), counted, one(2, "C", compare(v(2), ">", const(6))), within=100)
    for ts, word in [(0, "A9"), (50, "A1"), (60, "B5"), (70, "C1"), (80, "B10"), (90, "C1"), (120, "C7")]:
        rig.at(ts, word)  # the first match waits for C behind the second one, which has not run out
    assert rig.seen == [["1 5,10 7"]]


def test_the_mark_that_nothing_came_has_no_time_so_that_it_runs_out_at_once() -> None:
    pattern = (both(absent(0, "A", t=1000), one(1, "B")), C)
    rig = Rig(*pattern, step=100)
    rig.until(1500)
    assert rig.send("B1 C2") == ["- 1 2"]
    rig = Rig(*pattern, step=100, within=300)
    rig.until(1500)
    assert rig.send("B1 C2") == []


def test_an_operand_whose_wait_is_over_leaves_no_mark_where_the_other_one_came() -> None:
    rig = Rig(either(absent(0, "A", t=50), one(1, "B")), C, within=1000, playback=True)
    rig.until(5000)  # the first wait is over long since
    rig.at(5000, "B1")
    assert rig.seen == []
    rig = Rig(every(either(absent(0, "A", t=50), one(1, "B"))), C, within=100, playback=True)
    rig.until(1000)
    rig.at(1000, "A0")
    rig.at(1010, "B1")
    rig.until(1070)
    rig.at(1070, "C2")
    assert rig.seen[0][0] == "- 1 2"


def test_timers_of_two_operands_take_turns_as_they_are_written() -> None:
    rig = Rig(A, either(absent(1, "B", t=20), absent(2, "C", t=20)), playback=True)
    rig.at(0, "A1")
    assert [timer.state.id for timer in rig.flow.timers.all()] == ["q/state/1/timer", "q/state/2/timer"]


def test_an_event_that_does_not_fit_empties_what_a_copy_kept_from_behind_its_scope() -> None:
    choice = either(one(2, "C"), one(3, "D", compare(v(3), ">", const(5))))
    rig = Rig(every(both(absent(0, "A"), one(1, "B")), choice), one(4, "E"))
    assert rig.send("B1 D9 B2") == []  # the second match has D 9 already: C counts for nothing
    assert rig.send("C3 E4") == ["- 1 - 9 4"]
    rig = Rig(every(both(absent(0, "A"), one(1, "B")), choice), one(4, "E"))
    rig.send("B1 D9 B2 D3 C3")  # D 3 does not fit
    assert rig.send("E4") == ["- 1 - 9 4", "- 2 3 - 4"]


def test_a_match_that_answers_more_than_once_in_a_chunk_is_put_out_as_it_was_at_last() -> None:
    def rig() -> Rig:
        first, second = one(0, "A", compare(v(0), ">", const(5))), one(1, "A", compare(v(1), ">", const(0)))
        made = Rig(every(first), every(second), many(one(2, "A", compare(v(2), ">", const(9))), 0, 2))
        made.send("A6")
        return made

    together, apart = rig(), rig()
    together.at(20, "A1", "A2", "A7")
    assert together.seen == [["7 - -"]] * 3
    assert apart.send("A1 A2 A7") == ["- - -", "- - -", "7 - -"]
