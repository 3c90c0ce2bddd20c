"""The records of progress."""

from __future__ import annotations

import msgspec

from nadi.metrics import Counts, Progress


def test_counts_add_up_by_stream():
    one, two = Counts({"A": 1, "B": 2}, {"Out": 1}, 1, 10, 1), Counts({"B": 3, "C": 4}, {}, 2, 5, 2)
    assert one.plus(two) == Counts({"A": 1, "B": 5, "C": 4}, {"Out": 1}, 3, 15, 3)


def test_totals_are_those_before_and_those_of_the_cut():
    progress = Progress(7, before=Counts({"A": 1}), counts=Counts({"A": 2}))
    assert progress.totals == Counts({"A": 3})


def test_progress_survives_being_written_as_json():
    progress = Progress(7, 1000, ((0, 1, 5), (1, 0, 9)), counts=Counts({"A": 2}), entries={"q/window": 3})
    found = msgspec.json.decode(msgspec.json.encode(progress), type=Progress)
    assert found == progress
    assert found.high_of() == {(0, 1): 5, (1, 0): 9}
