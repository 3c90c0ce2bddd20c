"""Notes of an app in a database that nodes share."""

from __future__ import annotations

import pytest
from servers.emptydatabase import EmptyDatabase

from nadi.errors import NadiError
from nadi.io.appnotes import AppNotes

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def url(database: EmptyDatabase) -> str:
    return database.address.parsed.render_as_string(hide_password=False)


def test_who_asks_first_makes_a_note_and_all_others_find_it(url: str) -> None:
    assert AppNotes(url, "A").once("run", lambda: "one") == "one"
    assert AppNotes(url, "A").once("run", lambda: "two") == "one"
    assert AppNotes(url, "B").once("run", lambda: "two") == "two"


def test_a_note_is_replaced_by_the_newest_run_and_by_no_earlier_one(url: str) -> None:
    old, new = AppNotes(url, "A", 7), AppNotes(url, "A", 8)
    old.begin()
    old.replace("ledger", [1, 2])
    new.begin()
    for refused in (
        lambda: old.replace("ledger", [9, 9]),
        lambda: old.replace("other", 1),
        old.begin,
        lambda: old.held("ledger"),
    ):
        with pytest.raises(NadiError) as failure:
            refused()
        assert failure.value.condition == "FENCED"
    assert (new.read("ledger"), new.read("other")) == ([1, 2], None)
    new.replace("ledger", [3, 4])
    new.begin()
    assert old.read("ledger") == [3, 4]


def test_notes_that_follow_come_in_the_order_of_their_names(url: str) -> None:
    notes = AppNotes(url, "A")
    for number in (2, 0, 1, 11):
        notes.once(f"source-0-{number:09}", lambda number=number: number)
    notes.once("source-1-000000005", lambda: 5)
    assert notes.following("source-0-000000000", "source-0-999999999") == [1, 2, 11]


def test_an_app_that_is_forgotten_has_no_notes_and_its_run_replaces_none(url: str) -> None:
    notes, other = AppNotes(url, "A", 3), AppNotes(url, "B", 3)
    for one in (notes, other):
        one.begin()
        one.replace("ledger", 1)
    notes.forget()
    assert (notes.read("ledger"), other.read("ledger")) == (None, 1)
    with pytest.raises(NadiError, match="another writer has taken over"):
        notes.replace("ledger", 2)
