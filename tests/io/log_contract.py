"""What every `Log` must hold to, as functions that the tests of each log call with one of theirs.

from log_contract import check_log, contents
check_log(log)                      # all rules, over every partition
assert payloads(log) == [b"a", b"b"]
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa

from nadi.io.contract import Log, Messages

Row = tuple[int, int, object]


def rows(messages: Messages) -> list[Row]:
    """(position, time, payload) of each message; a typed row is given as a dict."""
    given = messages.payloads
    payloads = given.to_pylist() if isinstance(given, pa.RecordBatch) else [bytes(p) for p in given]
    return list(zip(messages.positions.tolist(), messages.times.tolist(), payloads, strict=True))


def contents(log: Log, partition: int = 0, start: int | None = None, end: int | None = None) -> list[Row]:
    """Everything in [start, end), from the beginning to the end unless said otherwise."""
    first = log.beginning(partition) if start is None else start
    last = log.end(partition) if end is None else end
    return [row for piece in log.read(partition, first, last) for row in rows(piece)]


def payloads(log: Log, partition: int = 0) -> list[object]:
    """The payloads of a whole partition."""
    return [payload for _position, _time, payload in contents(log, partition)]


def check_log(log: Log) -> None:
    """All rules, for every partition of a log that holds still meanwhile."""
    assert log.partitions() >= 1
    for partition in range(log.partitions()):
        pieces_are_well_formed(log, partition)
        positions_ascend_within_the_range_asked_for(log, partition)
        every_call_reads_the_same(log, partition)
        any_split_reads_the_same_as_the_whole(log, partition)
        an_empty_range_reads_nothing(log, partition)
        known_times_are_the_times_read(log, partition)


def pieces_are_well_formed(log: Log, partition: int) -> None:
    for piece in log.read(partition, log.beginning(partition), log.end(partition)):
        assert len(piece) > 0, "an empty piece says nothing"
        assert piece.positions.dtype == np.int64
        assert piece.times.dtype == np.int64
        assert len(piece.times) == len(piece)
        many = piece.payloads.num_rows if isinstance(piece.payloads, pa.RecordBatch) else len(piece.payloads)
        assert many == len(piece)
        assert len(piece.properties) in (0, len(piece))


def positions_ascend_within_the_range_asked_for(log: Log, partition: int) -> None:
    start, end = log.beginning(partition), log.end(partition)
    positions = [position for position, _time, _payload in contents(log, partition)]
    assert all(a < b for a, b in itertools.pairwise(positions))
    assert all(start <= p < end for p in positions)


def every_call_reads_the_same(log: Log, partition: int) -> None:
    assert contents(log, partition) == contents(log, partition)


def any_split_reads_the_same_as_the_whole(log: Log, partition: int) -> None:
    whole = contents(log, partition)
    start, end = log.beginning(partition), log.end(partition)
    draw = random.Random(partition)
    for cuts in (1, 2, 7):
        marks = sorted({start, end, *(draw.randint(start, end) for _ in range(cuts))})
        pieces = [contents(log, partition, a, b) for a, b in itertools.pairwise(marks)]
        assert [row for piece in pieces for row in piece] == whole
        for (a, b), piece in zip(itertools.pairwise(marks), pieces):
            assert all(a <= position < b for position, _time, _payload in piece)


def an_empty_range_reads_nothing(log: Log, partition: int) -> None:
    for position in (log.beginning(partition), log.end(partition)):
        assert contents(log, partition, position, position) == []


def known_times_are_the_times_read(log: Log, partition: int) -> None:
    start, end = log.beginning(partition), log.end(partition)
    known = log.times(partition, start, end)
    if known is not None and len(known) == end - start:
        read = {position: time for position, time, _payload in contents(log, partition)}
        assert [int(known[p - start]) for p in read] == list(read.values())
