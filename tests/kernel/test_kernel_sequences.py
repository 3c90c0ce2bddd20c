"""Sequences, against the table of semantics/patterns.md#sequences-that-count."""

from __future__ import annotations

import pytest
from patternrig import Rig, absent, both, compare, either, every, many, one, v

from nadi.lang.tree import Type
from nadi.plan import nodes

STREAM = "A1 A2 B10 B11 A3 A4 A5 C20 A4 B12 C21 B13 A6 C22"


def run(*elements: nodes.StateElement, words: str = STREAM) -> list[str]:
    """Sends what the sequence reads; other streams are invisible to it."""
    return Rig(*elements, sequence=True).send(words)


def falling(slot: int, counted: int) -> nodes.Expr:
    return compare(v(slot), "<", v(counted, -1))


def rising(slot: int, first: int) -> nodes.Expr:
    """`e2[last].v is null and v > e1.v or v > e2[last].v`"""
    latest = v(slot, -1)
    begun = nodes.Logic("and", nodes.NullCheck(latest), compare(v(slot), ">", v(first)))
    return nodes.Logic("or", begun, compare(v(slot), ">", latest), Type.BOOL)


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ((every(one(0, "A")), one(1, "B")), ["2 10", "4 12"]),
        ((every(many(one(0, "A"), 0, None)), one(1, "B")), ["1,2 10", "- 11", "3,4,5,4 12", "- 13"]),
        ((every(many(one(0, "A"), 1, None)), one(1, "B")), ["1,2 10", "3,4,5,4 12"]),
        ((many(one(0, "A"), 1, None), one(1, "B")), ["1,2 10"]),
        ((every(many(one(0, "A"), 0, 1)), one(1, "B")), ["2 10", "- 11", "4 12", "- 13"]),
        (
            (every(one(0, "B")), many(one(1, "A"), 0, None), one(2, "C")),
            ["11 3,4,5 20", "12 - 21", "13 6 22"],
        ),
        ((every(one(0, "A")), one(1, "A")), ["1 2", "2 3", "3 4", "4 5", "5 4", "4 6"]),
        ((every(many(one(0, "A"), 1, 1)), one(1, "B")), ["2 10", "4 12"]),
        ((every(many(one(0, "A"), 2, 2)), one(1, "B")), []),
        ((many(one(0, "A"), 2, 3), one(1, "B")), []),
        (
            (every(one(0, "A")), many(one(1, "A", rising(1, 0)), 1, None), one(2, "A", falling(2, 1))),
            ["1 2,3,4,5 4"],
        ),
    ],
    ids=[
        "plain",
        "star",
        "plus",
        "plus once",
        "optional",
        "star inside",
        "same stream",
        "exactly one",
        "two",
        "two or three",
        "peak",
    ],
)
def test_the_observed_table(elements: tuple[nodes.StateElement, ...], expected: list[str]) -> None:
    assert run(*elements) == expected


@pytest.mark.parametrize(("words", "expected"), [("B1 A2 B3", []), ("A1 A2 B3", []), ("A1 B2 A3 B4", ["1 2"])])
def test_without_every_a_sequence_only_matches_at_the_very_first_events(words: str, expected: list[str]) -> None:
    assert run(one(0, "A"), one(1, "B"), words=words) == expected


def test_overlapping_starts_are_fine() -> None:
    rising_pair = (every(one(0, "A")), one(1, "A", compare(v(1), ">", v(0))), one(2, "A", compare(v(2), ">", v(1))))
    assert run(*rising_pair, words="A1 A2 A3 A4 A1 A2") == ["1 2 3", "2 3 4"]


def test_a_half_complete_and_outlives_other_events_of_the_sequence() -> None:
    pattern = (every(one(0, "C")), both(one(1, "A"), one(2, "B")))
    assert run(*pattern, words="C1 A2 C3 B4") == ["1 2 4"]


def test_or_takes_either() -> None:
    pattern = (every(one(0, "A")), either(one(1, "B"), one(2, "C")))
    assert run(*pattern, words="A1 B2 A3 C4 A5 A6 C7") == ["1 2 -", "3 - 4", "6 - 7"]


def test_a_trailing_star_completes_at_once_without_its_event() -> None:
    assert run(every(one(0, "A")), many(one(1, "B"), 0, None), words="A1 B2 A3") == ["1 -", "3 -"]


def test_within_holds_for_sequences_too() -> None:
    rig = Rig(every(one(0, "A")), one(1, "B"), sequence=True, within=100)
    for ts, word in [(0, "A1"), (101, "B2"), (200, "A3"), (300, "B4")]:
        rig.at(ts, word)
    assert rig.seen == [["3 4"]]


def test_an_absence_after_an_event_is_over_when_nothing_came() -> None:
    rig = Rig(one(0, "A"), absent(1, "B", t=1000), sequence=True, step=100)
    rig.send("A1")
    assert rig.until(1100) == ["1 -"]
    rig = Rig(one(0, "A"), absent(1, "B", t=1000), sequence=True, step=100)
    rig.send("A1 B2")
    assert rig.until(5000) == []


def test_every_event_opens_an_absence_in_a_sequence() -> None:
    rig = Rig(every(one(0, "A")), absent(1, "B", t=1000), sequence=True, step=100)
    rig.send("A1")
    assert rig.until(1500) == ["1 -"]
    rig.send("A2")
    assert rig.until(3000) == ["2 -"]


def test_a_leading_absence_in_a_sequence() -> None:
    rig = Rig(absent(0, "A", t=1000), one(1, "B"), sequence=True, step=100)
    rig.until(1200)
    assert rig.send("B1") == ["- 1"]
    rig = Rig(absent(0, "A", t=1000), one(1, "B"), sequence=True, step=100)
    rig.until(500)
    assert rig.send("B1") == []


def test_an_operand_that_must_stay_away_in_a_sequence() -> None:
    pattern = (one(0, "A"), both(absent(1, "B"), one(2, "C")))
    assert run(*pattern, words="A1 C3") == ["1 - 3"]
    assert run(*pattern, words="A1 B2 C3") == []
