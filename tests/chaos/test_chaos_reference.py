"""That the kill test can fail: what the comparison says of sinks in which something is wrong."""

from __future__ import annotations

import random

import pytest
from reference import Made, differences, numbered_differences
from sinks import Numbered, add_message
from strikes import DECK, ROUNDS, deck

WANTED = [Made(1, ("a",)), Made(1, ("b",)), Made(2, ("c",)), Made(3, ("d",))]


def test_rows_of_committed_cuts_and_the_next_ones_are_right():
    rows = [made.row for made in WANTED]
    assert [differences("x", rows[:n], WANTED, 2) for n in (3, 4)] == [[], []]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("ab", "row 2 is missing: ('c',) of cut 2, which is committed"),
        ("abcde", "row 4 is one too many: ('e',)"),
        ("abbc", "row 2 differs (cut 2, committed 2)"),
        ("bacd", "row 0 differs"),
    ],
    ids=["lost", "foreign", "twice", "order"],
)
def test_what_is_lost_foreign_doubled_or_out_of_order_is_told(rows: str, told: str):
    found = differences("x", [(row,) for row in rows], WANTED, 2)
    assert found
    assert told in found[0]


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ((0, 1, 1), "number 1 stands where 2 should"),
        ((0, 2, 3), "number 2 stands where 1 should"),
        ((1,), "number 1 stands"),
    ],
    ids=["twice", "gap", "start"],
)
def test_wrong_numbers_are_told_with_their_group(numbers: tuple[int, ...], told: str):
    rows = [(number, WANTED[number].row) for number in numbers]
    found = numbered_differences("x", {7: rows}, {7: WANTED}, 0)
    assert found[0].startswith("x, key-group 7: ")
    assert told in found[0]


def test_a_group_that_is_not_there_at_all_is_missing():
    assert "row 0 is missing" in numbered_differences("x", {}, {7: WANTED}, 1)[0]


def test_a_message_with_an_array_has_the_rows_of_a_chunk_with_their_numbers():
    row = '{"event": {"kind": "s", "k": "a", "a": "1", "b": "", "value": 2, "at": 3}}'
    rows: Numbered = {}
    headers = {"Nadi-Group": "4", "Nadi-Number": "6", "Nadi-Count": "2"}
    add_message(rows, f"[{row}, {row}]".encode(), headers)
    assert rows == {4: [(6, ("s", "a", "1", "", 2, 3)), (7, ("s", "a", "1", "", 2, 3))]}


def test_as_many_rounds_as_there_are_by_default_do_everything_that_can_be_done():
    cards = deck(random.Random(1))
    drawn = [next(cards) for _ in range(ROUNDS)]
    assert {kind: drawn.count(kind) for kind in DECK} == DECK
