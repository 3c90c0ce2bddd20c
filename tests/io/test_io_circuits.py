"""The circuit of a sink: what people see while its target is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from nadi.errors import NadiError, error
from nadi.io import circuits, retry
from nadi.io.circuits import notes, watched


def away(*_: object) -> None:
    raise error("CONNECTION_UNAVAILABLE", connector="it", reason="nobody listens")


def test_it_opens_with_a_failure_is_half_open_while_it_is_tried_and_closes_with_a_success(tmp_path: Path):
    with watched(tmp_path, 1, 0):
        assert notes(tmp_path) == {}
    assert not (tmp_path / "circuits").exists()  # nothing is written for what works
    for count in (1, 2):
        before: list[str] = []

        def write(before: list[str] = before) -> None:
            before.extend(note.state(0) for note in notes(tmp_path).values())
            away()

        with pytest.raises(NadiError), watched(tmp_path, 1, 0):
            write()
        assert before == ["half-open"] * (count - 1)
        note = notes(tmp_path)[1]
        assert (note.state(0), note.attempts) == ("open", count)
        assert "nobody listens" in note.reason
    since = note.since
    with watched(tmp_path, 1, 0):
        assert (notes(tmp_path)[1].state(0), notes(tmp_path)[1].since) == ("half-open", since)
    assert notes(tmp_path) == {}


def test_attempts_that_a_sink_makes_by_itself_are_counted_with_the_time_of_the_next(tmp_path: Path):
    def write() -> None:
        retry.failed("http sink of Out", "refused", 10.0)
        retry.failed("http sink of Out", "refused", 10.0)
        note = notes(tmp_path)[0]
        assert (note.attempts, note.state(note.due - 1), note.state(note.due)) == (2, "open", "half-open")
        away()

    with pytest.raises(NadiError), watched(tmp_path, 0, 0):
        write()
    assert notes(tmp_path)[0].attempts == 2
    retry.succeeded("http sink of Out")
    assert circuits.current() is None


def test_of_several_buckets_the_one_that_waits_longest_is_told_and_a_start_forgets_all(tmp_path: Path):
    for bucket in (0, 1):
        with pytest.raises(NadiError), watched(tmp_path, 3, bucket):
            away()
    first = circuits._read(tmp_path / "circuits" / "3-0.json")
    assert notes(tmp_path) == {3: first}
    circuits.forget(tmp_path)
    assert notes(tmp_path) == {}


def test_what_is_no_matter_of_availability_leaves_no_note(tmp_path: Path):
    with pytest.raises(NadiError), watched(tmp_path, 0, 0):
        raise error("REFUSED", connector="it", reason="no")
    assert notes(tmp_path) == {}
