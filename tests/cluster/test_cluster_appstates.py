"""Revisions of apps: which of them can be restored, what they keep of channels, and what the leader's writes make of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nadi.cluster.appstates import fits, needed, next_name, oldest_cut, orphans, packed, parts_of, restorable, surplus
from nadi.cluster.ledger import Ledger
from nadi.cluster.messages import Delete, Deploy, Done, Forget, PartState, PartText, Record, Restore
from nadi.cluster.reconciliation import Situation
from nadi.cluster.rows import App, Beginning, Part, Placement, Revision
from nadi.cluster.settings import Placing, Timing
from nadi.cluster.writes import digest_of, written

PLACES = [(f"C{c}", f"P-{p}", part) for c in range(2) for p in range(2) for part in range(2)]
standings = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 50), max_size=len(PLACES))


def state(
    instance: str, cut: int, needs: dict[tuple[str, str, int], int] | None = None, digest: str = "d"
) -> PartState:
    asked = tuple((*place, chunk) for place, chunk in (needs or {}).items())
    return PartState(instance, f"{cut}__{instance}", digest, cut, asked)


@given(st.lists(standings, max_size=4), st.lists(st.lists(standings, max_size=3), max_size=3))
def test_the_least_needed_chunk_is_that_of_a_reader_or_a_revision_and_nobody_needs_an_earlier_one(
    readers: list[dict[tuple[str, str, int], int]], kept: list[list[dict[tuple[str, str, int], int]]]
) -> None:
    revisions = [[state(f"I-{i}", i, needs) for i, needs in enumerate(states)] for states in kept]
    found = needed(readers, revisions)
    everyone = [*readers, *(needs for states in kept for needs in states)]
    assert found.keys() == {place for needs in everyone for place in needs}
    for place, chunk in found.items():
        assert all(needs.get(place, chunk) >= chunk for needs in everyone)
        assert any(needs.get(place) == chunk for needs in everyone)


@given(st.lists(standings, min_size=1, max_size=4), st.lists(standings, max_size=3), st.integers(0, 20))
def test_readers_that_go_on_and_revisions_that_go_never_need_an_earlier_chunk(
    readers: list[dict[tuple[str, str, int], int]], kept: list[dict[tuple[str, str, int], int]], more: int
) -> None:
    revisions = [[state("I-1", n, needs)] for n, needs in enumerate(kept)]
    before = needed(readers, revisions)
    further = [{place: chunk + more for place, chunk in needs.items()} for needs in readers]
    after = needed(further, revisions[1:])
    assert all(after[place] >= before[place] for place in after)


def test_the_cut_log_reaches_back_to_the_oldest_revision_of_the_instance():
    revisions = [[state("I-1", 7), state("I-2", 90)], [state("I-1", 12)]]
    assert oldest_cut("I-1", 20, revisions) == 7
    assert oldest_cut("I-2", 20, revisions) == 20
    assert oldest_cut("I-3", 20, revisions) == 20


def test_a_revision_fits_the_very_instances_and_texts_that_it_is_of():
    parts = [Part("A-g-1", "A", "A-g", "d", "text", False, 1.0)]
    assert fits([state("A-g-1", 1)], parts)
    assert not fits([state("A-g-1", 1, digest="other")], parts)
    assert not fits([state("A-g-1", 1), state("A-g-2", 1)], parts)
    assert not fits([], [])
    rows = [Revision(f"{n}__A", "A", 1, n, packed([state("A-g-1", n, digest=d)])) for n, d in ((9, "d"), (8, "old"))]
    assert [row.name for row in restorable(rows, "A", parts)] == ["9__A"]
    assert parts_of(rows[0]) == (state("A-g-1", 9),)


def test_a_revision_of_before_a_change_does_not_fit_where_the_same_text_has_come_back() -> None:
    made = [replace(state("A-g-1", 1), home="A-g-1~v2-aaaaaa")]
    assert fits(made, [Part("A-g-1", "A", "A-g", "d", "text", False, 1.0, home="A-g-1~v2-aaaaaa")])
    assert not fits(made, [Part("A-g-1", "A", "A-g", "d", "text", False, 1.0, home="A-g-1~v4-bbbbbb")])
    assert not fits(
        [replace(state("A-g-1", 1), home="")], [Part("A-g-1", "A", "A-g", "d", "text", False, 1.0, home="x")]
    )
    of_before_homes_were_noted = [state("A-g-1", 1)]
    assert fits(of_before_homes_were_noted, [Part("A-g-1", "A", "A-g", "d", "text", False, 1.0, home="x")])


def test_names_go_on_where_the_clock_was_set_back():
    rows = [Revision("100__A", "A", 1, 0, "[]"), Revision("200__B", "B", 1, 0, "[]")]
    assert next_name("A", 50, rows) == "101__A"
    assert next_name("A", 150, rows) == "150__A"


def test_the_newest_revision_stays_whatever_number_is_kept():
    rows = [Revision(f"{n}__A", "A", 1, n, "[]") for n in range(3)]
    assert [row.name for row in surplus(rows, 2)] == ["0__A"]
    assert [row.name for row in surplus(rows, 0)] == ["0__A", "1__A"]
    assert surplus(rows, 5) == []


def test_a_part_without_a_revision_of_the_app_is_an_orphan():
    row = Revision("9__A", "A", 1, 9, packed([state("A-g-1", 9)]))
    names = {"A-g-1": ["8__A-g-1", "9__A-g-1"], "A-g-2": ["9__A-g-2"], "A-g-3": []}
    assert orphans(names, [row]) == {"A-g-1": ["8__A-g-1"], "A-g-2": ["9__A-g-2"]}


# ---- what the leader writes


def about() -> Situation:
    return Situation(0, 77, 0, 1, {}, {}, {}, Timing(), Placing())


def deployed() -> Ledger:
    """The app A with two instances, one of which lies with a worker."""
    ledger = Ledger()
    parts = tuple(PartText(f"A-g-{n}", "A-g", f"text {n}") for n in (1, 2))
    written(ledger, about(), Deploy("A", "text", parts))
    ledger.placements["A-g-1"] = Placement("A-g-1", "w", ledger.raised("A-g-1"), digest_of("text 1"), True)
    return ledger


def record(name: str = "9__A", version: int = 1) -> Record:
    return Record(name, "A", version, tuple(state(f"A-g-{n}", 9, digest=digest_of(f"text {n}")) for n in (1, 2)))


def test_a_revision_is_recorded_once_and_only_for_the_version_that_it_is_of():
    ledger = deployed()
    assert written(ledger, about(), record(version=2)).what == "stale"
    assert written(ledger, about(), record()).what == "recorded"
    assert written(ledger, about(), record()).what == "unchanged"
    row = ledger.revisions["9__A"]
    assert (row.app, row.version, row.made) == ("A", 1, 77)


def test_a_revision_of_other_texts_than_the_app_has_is_not_recorded():
    ledger = deployed()
    parts = tuple(PartText(f"A-g-{n}", "A-g", f"changed {n}") for n in (1, 2))
    written(ledger, about(), Deploy("A", "changed", parts))
    assert written(ledger, about(), record(version=2)).what == "stale"


def test_a_restore_raises_the_epoch_of_each_instance_and_says_what_it_begins_with():
    ledger = deployed()
    written(ledger, about(), record())
    assert written(ledger, about(), Restore("A", "9__A")) == Done("restoring")
    placed = ledger.placements["A-g-1"]
    assert placed.epoch == 2
    assert ledger.beginnings["A-g-1"] == Beginning("A-g-1", "9__A-g-1", placed.epoch)
    assert ledger.beginnings["A-g-2"] == Beginning("A-g-2", "9__A-g-2", 1), "it lies nowhere: what it is placed with"
    assert ledger.raised("A-g-2") >= ledger.beginnings["A-g-2"].epoch


def test_a_restore_of_what_is_not_there_or_does_not_fit_changes_nothing():
    ledger = deployed()
    written(ledger, about(), record())
    assert written(ledger, about(), Restore("A", "8__A")).what == "absent"
    assert written(ledger, about(), Restore("B", "9__A")).what == "absent"
    ledger.apps["A"] = App("A", 2, "other", "other")
    del ledger.parts["A-g-2"]
    assert written(ledger, about(), Restore("A", "9__A")).what == "unfit"
    assert not ledger.beginnings


def test_revisions_go_when_they_are_forgotten_and_with_their_app():
    ledger = deployed()
    for name in ("8__A", "9__A"):
        written(ledger, about(), record(name))
    assert written(ledger, about(), Forget(("8__A", "7__A"))).what == "deleted"
    assert written(ledger, about(), Forget(("8__A",))).what == "absent"
    written(ledger, about(), Restore("A", "9__A"))
    written(ledger, about(), Delete("A"))
    assert not ledger.revisions
    assert not ledger.beginnings
