"""The files of the log and what is in memory of them, over crashes at any byte."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairing import append

from nadi.errors import NadiError
from nadi.eventsync.backlog import Backlog, Held
from nadi.eventsync.places import lane_of, place_of
from nadi.eventsync.segments import Entry, Kind, Segments, Span
from nadi.eventsync.wire import number_body, numbers


def record(number: int, size: int = 20) -> Entry:
    return Entry(Kind.RECORD, number, bytes([number % 256]) * size)


def read(folder: Path, size: int = 400) -> list[Entry]:
    found = Segments(folder, size)
    try:
        return [entry for entry, _ in found.open()]
    finally:
        found.close()


def opened(folder: Path, size: int = 400) -> Segments:
    made = Segments(folder, size)
    list(made.open())
    return made


def test_what_was_appended_is_there_in_order_after_a_restart(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.restart(3)
    written = [record(n) for n in range(1, 60)]
    for entry in written:
        log.append([entry], sync=True)
    log.close()
    assert len(list(tmp_path.iterdir())) > 4
    again = Segments(tmp_path, 400)
    found = list(again.open())
    assert [entry for entry, _ in found if entry.kind == Kind.RECORD] == written
    assert [again.read(span) for entry, span in found if entry.kind == Kind.RECORD] == [e.body for e in written]
    assert (again.token, again.whole) == (3, False)
    again.close()


def test_that_the_copy_is_whole_outlives_the_segment_in_which_it_was_said(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.restart(3)
    log.append([Entry(Kind.WHOLE, 0, b"")], sync=True)
    for number in range(1, 40):
        log.append([record(number)], sync=True)
    log.forget(log.last)
    log.close()
    again = opened(tmp_path)
    assert (again.token, again.whole) == (3, True)
    again.restart(4)
    again.close()
    assert [entry.kind for entry in read(tmp_path)] == [Kind.BEGIN]


def test_a_segment_that_was_whole_and_is_damaged_is_an_error_that_names_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(1, 40):
        log.append([record(number)], sync=True)
    log.close()
    first = sorted(tmp_path.iterdir())[0]
    data = bytearray(first.read_bytes())
    data[60] ^= 1
    first.write_bytes(data)
    with pytest.raises(NadiError, match=first.name) as problem:
        read(tmp_path)
    assert problem.value.condition == "STATE_FILE_NOT_READABLE"


@given(
    groups=st.lists(st.lists(st.integers(0, 90), min_size=1, max_size=4), min_size=1, max_size=12),
    torn=st.integers(0, 2000),
    bad=st.booleans(),
)
def test_a_crash_at_any_byte_leaves_all_that_was_before_it_and_nothing_that_was_not_written(
    groups: list[list[int]], torn: int, bad: bool
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        log = opened(folder)
        written: list[tuple[Entry, Span]] = []
        for group in groups:
            entries = [record(len(written) + n, size) for n, size in enumerate(group, 1)]
            written += zip(entries, log.append(entries, sync=True))
        last = log.last
        log.close()
        path = folder / f"{last:012d}.held"
        size = path.stat().st_size
        end = max(0, size - torn)
        data = path.read_bytes()[:end]
        if bad and data:  # the last block came to the disk with something else in it
            data = data[:-1] + bytes([data[-1] ^ 0x5A])
            end -= 1
        path.write_bytes(data)
        kept = [e for e, span in written if span.segment < last or span.offset + span.length <= end]
        assert [entry for entry in read(folder) if entry.kind == Kind.RECORD] == kept
        again = opened(folder)
        again.append([record(99)], sync=True)
        again.close()
        assert [entry for entry in read(folder) if entry.kind == Kind.RECORD] == [*kept, record(99)]
    finally:
        shutil.rmtree(folder)


# ---- what is held ---------------------------------------------------------------------------------------------------


def held(number: int, first: int, subject: str = "s.a", stream: str = "s") -> Held:
    message = append(first, subject=subject, stream=stream)
    return Held(number, Span(1, number * 100, 50), lane_of(message), place_of(message))


S = ("journal", "s")


def test_a_record_that_is_not_settled_holds_up_those_behind_it_in_its_lane_only() -> None:
    log = Backlog()
    log.add(held(1, 10))
    log.add(held(2, 11))
    log.add(held(3, 10, "t.a", "t"))
    assert log.confirm([2, 3]) == {S, ("journal", "t")}
    assert log.next_of(S) is None
    assert log.next_of(("journal", "t")) is not None
    assert log.abandon([1]) == {S}
    found = log.next_of(S)
    assert found is not None
    assert found.number == 2


def test_a_later_record_for_a_place_replaces_one_that_is_not_settled_when_it_is_confirmed() -> None:
    log = Backlog()
    log.add(held(1, 10))
    log.add(held(2, 10))
    log.add(held(3, 11))
    log.confirm([3])
    assert log.next_of(S) is None
    log.confirm([2])
    assert [log.next_of(S).number, len(log)] == [2, 2]  # type: ignore[union-attr]
    log.confirm([1])
    assert len(log) == 2


def test_a_later_record_that_is_abandoned_replaces_nothing() -> None:
    log = Backlog()
    log.add(held(1, 10))
    log.add(held(2, 10))
    log.abandon([2])
    log.settle()
    assert log.next_of(S).number == 1  # type: ignore[union-attr]


def test_a_take_over_writes_the_last_one_for_each_place() -> None:
    log = Backlog()
    for number, first in ((1, 10), (2, 10), (3, 11), (4, 12), (5, 12)):
        log.add(held(number, first))
    log.confirm([4])
    log.abandon([3])
    log.settle()
    order = []
    while (found := log.next_of(S)) is not None:
        order.append(found.number)
        log.done_with([found.number])
    assert order == [2, 4, 5]
    assert (log.weight, len(log), log.lanes()) == (0, 0, [])


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "confirm", "abandon", "write", "settle"]), st.integers(0, 7)), max_size=60
)


@given(STEPS)
def test_each_record_is_written_once_in_order_and_never_when_it_was_abandoned(steps: list[Step]) -> None:
    log, number, written = Backlog(), 0, []
    places: dict[int, int] = {}
    abandoned: set[int] = set()
    weights = 0
    for what, n in steps:
        if what == "put":
            number += 1
            places[number] = n
            log.add(held(number, n))
            weights += log._held[number].weight
        elif what == "write":
            if (found := log.next_of(S)) is not None:
                written.append(found.number)
                log.done_with([found.number])
        elif what == "settle":
            log.settle()
        elif n and n <= number:
            if what == "confirm":
                log.confirm([n])
            elif (waits := log._held.get(n)) is not None and not waits.settled:
                log.abandon([n])
                abandoned.add(n)
    log.settle()
    while (found := log.next_of(S)) is not None:
        written.append(found.number)
        log.done_with([found.number])
    assert written == sorted(set(written))
    assert log.done == weights
    assert len(log) == 0
    for each in set(places) - set(written):
        replaced = any(other > each and places[other] == places[each] for other in written)
        assert each in abandoned or replaced


@given(STEPS, st.integers(0, 60))
def test_what_is_held_after_a_crash_is_what_was_held_at_that_entry(steps: list[Step], crash: int) -> None:
    """The marks in the file say all: reading them again gives the same backlog."""
    folder = Path(tempfile.mkdtemp())
    try:
        files, live, number = opened(folder, 10_000), Backlog(), 0
        for what, n in steps[:crash]:
            if what == "put":
                number += 1
                message = append(n)
                (span,) = files.append([Entry(Kind.RECORD, number, msgspec.msgpack.encode(message))], sync=True)
                live.add(Held(number, span, lane_of(message), place_of(message)))
            elif what in ("confirm", "abandon"):
                kind = Kind.CONFIRMED if what == "confirm" else Kind.ABANDONED
                files.append([Entry(kind, 0, number_body(n))], sync=False)
                (live.confirm if what == "confirm" else live.abandon)([n])
            elif what == "write" and (found := live.next_of(S)) is not None:
                live.done_with([found.number])
                files.append([Entry(Kind.DONE, 0, number_body(found.number))], sync=False)
        files.close()
        again = Backlog()
        for entry, span in Segments(folder, 10_000).open():
            match entry.kind:
                case Kind.RECORD:
                    found_record = msgspec.msgpack.decode(entry.body, type=type(append(0)))
                    again.add(Held(entry.number, span, lane_of(found_record), place_of(found_record)))
                case Kind.CONFIRMED:
                    again.confirm(numbers(entry.body))
                case Kind.ABANDONED:
                    again.abandon(numbers(entry.body))
                case Kind.DONE:
                    again.done_with(numbers(entry.body))
        seen = [[(h.number, h.settled, h.span) for h in each._held.values()] for each in (again, live)]
        assert seen[0] == seen[1]
    finally:
        shutil.rmtree(folder)
