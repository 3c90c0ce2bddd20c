"""The protocol of channels, in memory: what readers see does not depend on how it was split, tried again, or interleaved."""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import pytest
from channels_memory import MemoryChannel, Row, all_of, delivery, give, log_on, sink_connector, sink_on
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.channels.records import decode_batch, decode_progress, encode_progress
from nadi.channels.source import ChannelLog, ChannelMapper
from nadi.channels.tracks import Track
from nadi.errors import NadiError
from nadi.kernel.contract import KEY_GROUPS
from nadi.kernel.keys import key_group
from nadi.pipeline.cutting.cuts import Waiting
from nadi.pipeline.cutting.frontier import Frontier, frontier_of, within

ROWS: list[Row] = [("a", 1, 10, 0), ("b", 2, 10, 0), ("a", 3, 20, 1), ("c", 4, 30, 2)]


def test_rows_come_as_they_were_given_with_their_chunks_order_and_own_times() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel)
    sink.begin(1, (0, 0))
    give(sink, delivery(1, ROWS))
    log = log_on(channel)
    assert (log.partitions(), log.beginning(0), log.end(0), log.reached(0)) == (1, 0, 3, 30)
    (messages,) = log.read(0, 0, 3)
    assert messages.times.tolist() == [10, 10, 20, 30]
    assert messages.positions.tolist() == [0, 0, 1, 2]
    decoded = ChannelMapper(sink_connector()).decode(messages)
    assert decoded.message.tolist() == [0, 0, 2, 3]
    assert decoded.timestamps is not None
    assert decoded.timestamps.tolist() == [15, 15, 25, 35]
    assert decoded.batch.to_pydict() == {"key": ["a", "b", "a", "c"], "value": [1, 2, 3, 4]}


def test_what_no_progress_names_counts_for_nobody() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel)
    sink.begin(1, (0, 0))
    sink.write(delivery(1, ROWS * 500))
    log = log_on(channel)
    assert (log.end(0), log.reached(0)) == (0, -1)
    give(sink, delivery(1, ROWS * 500))
    assert log.end(0) == 1500
    assert len(all_of(log)) == 2000


def test_a_cut_that_is_announced_twice_counts_once() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel)
    sink.begin(1, (0, 0))
    give(sink, delivery(1, ROWS))
    again = sink_on(MemoryChannel(channel))
    again.begin(2, (0, 1))  # killed between the announcement and the commit record
    give(again, delivery(1, ROWS, epoch=2))
    give(again, delivery(2, ROWS, first=4, epoch=2))
    assert [row[4] for row in all_of(log_on(channel))] == [1, 2, 3, 4, 1, 2, 3, 4]


def test_a_run_that_was_replaced_announces_nothing() -> None:
    channel = MemoryChannel()
    old, new = sink_on(channel), sink_on(MemoryChannel(channel))
    old.begin(1, (0, 0))
    new.begin(2, (0, 0))
    with pytest.raises(NadiError, match="FENCED"):
        give(old, delivery(1, ROWS))
    give(new, delivery(1, ROWS[:2], epoch=2))
    assert len(all_of(log_on(channel))) == 2


def test_a_run_with_an_epoch_that_is_over_cannot_begin() -> None:
    channel = MemoryChannel()
    sink_on(channel).begin(3, (0, 0))
    with pytest.raises(NadiError, match="FENCED"):
        sink_on(MemoryChannel(channel)).begin(2, (0, 0))


@pytest.mark.parametrize("cuts", [(0, 0), (5, 5)])
def test_a_channel_that_does_not_go_with_the_state_of_its_producer_is_refused(cuts: tuple[int, int]) -> None:
    channel = MemoryChannel()
    sink = sink_on(channel)
    sink.begin(1, (0, 0))
    for cut in (1, 2, 3):
        give(sink, delivery(cut, ROWS, first=4 * cut))
    with pytest.raises(NadiError, match="CHANNEL_MISMATCH"):
        sink_on(MemoryChannel(channel)).begin(2, cuts)


def test_an_idle_producer_moves_the_clock_and_later_rows_count_as_of_then() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel, channel_idle="50")
    sink.begin(1, (0, 0))
    give(sink, delivery(1, ROWS))
    log = log_on(channel)
    sink.idle(60)
    assert (log.end(0), log.reached(0)) == (3, 30)  # not yet
    sink.idle(80)
    log.end(0)
    assert log.reached(0) == 80
    give(sink, delivery(2, [("d", 9, 70, 0), ("d", 10, 90, 1)], first=4))
    assert [(row[0], row[4]) for row in all_of(log)][-2:] == [(80, 9), (90, 10)]


def test_a_closed_producer_holds_nobody() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel)
    sink.begin(1, (0, 0))
    give(sink, delivery(1, ROWS))
    log = log_on(channel)
    assert log.end(0) == 3
    assert not log.finished()
    sink.finish()
    log.end(0)
    assert log.reached(0) is None
    assert log.finished()


def test_rows_of_a_keyed_channel_go_where_their_key_groups_are() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel, parts=3, key="key")
    sink.begin(1, (0, 0))
    rows = [(f"k{i}", i, i, i) for i in range(100)]
    give(sink, delivery(1, rows))
    for part in range(3):
        found = all_of(log_on(channel, parts=3, assigned=[part]))
        assert found
        assert {key_group(key) * 3 // KEY_GROUPS for *_, key, _value in found} == {part}
        assert [r[4] for r in found] == sorted(r[4] for r in found)
    assert len(all_of(log_on(channel, parts=3))) == 100


def test_an_event_without_a_key_goes_to_the_part_of_key_group_0() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel, parts=3, key="str:upper(key)")
    sink.begin(1, (0, 0))
    give(sink, delivery(1, [(None, 1, 1, 1)]))  # type: ignore[list-item]
    assert len(all_of(log_on(channel, parts=3, assigned=[0]))) == 1


def test_a_chunk_that_is_spread_over_parts_keeps_its_runs_apart() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel, parts=128, key="key")
    sink.begin(1, (0, 0))
    give(sink, delivery(1, [("a", 1, 5, 0), ("b", 2, 5, 0), ("a", 3, 5, 0), ("a", 4, 5, 0)]))
    found = all_of(log_on(channel, parts=128, assigned=[key_group("a")]))
    assert [(r[2], r[4]) for r in found] == [(0, 1), (1, 3), (1, 4)]


def test_chunks_go_round_by_their_number() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel, parts=2, strategy="ROUND_ROBIN")
    sink.begin(1, (0, 0))
    give(sink, delivery(1, [("k", i, i, i // 2) for i in range(200)]))
    counts = [len(all_of(log_on(channel, parts=2, assigned=[part]))) for part in (0, 1)]
    assert sum(counts) == 200
    assert abs(counts[0] - counts[1]) <= 8


def test_rows_of_several_buckets_are_merged_by_the_time_they_came_out() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel)
    sink.begin(1, (0, 0))
    receipts = [
        sink.write(delivery(1, [("a", 1, 10, 0), ("a", 2, 30, 1)], bucket=0)),
        sink.write(delivery(1, [("b", 3, 10, 0), ("b", 4, 20, 1), ("b", 5, 20, 1)], bucket=1)),
    ]
    sink.announce(1, 40, receipts)
    assert [(r[0], r[2], r[4]) for r in all_of(log_on(channel))] == [
        (10, 0, 1),
        (10, 1, 3),
        (20, 2, 4),
        (20, 2, 5),
        (30, 3, 2),
    ]


def test_a_key_group_that_moves_gives_nothing_that_its_former_owner_has_given() -> None:
    channel = MemoryChannel()
    old = sink_on(channel, "g-1", numbers="group")
    old.begin(1, (0, 0))
    give(old, delivery(1, ROWS, groups=[7, 7, 9, 7]))
    new = sink_on(MemoryChannel(channel), "g-2", numbers="group")
    new.begin(2, (0, 0))
    give(new, delivery(1, [*ROWS, ("e", 5, 40, 3)], groups=[7, 7, 9, 7, 7], epoch=2))
    assert [r[4] for r in all_of(log_on(channel, ["g-1", "g-2"]))] == [1, 2, 3, 4, 5]


def test_instances_with_numbers_of_their_own_do_not_hide_each_other() -> None:
    channel = MemoryChannel()
    for producer in ("g-1", "g-2"):
        sink = sink_on(MemoryChannel(channel), producer)
        sink.begin(1, (0, 0))
        give(sink, delivery(1, ROWS))
    assert len(all_of(log_on(channel, ["g-1", "g-2"]))) == 8


def test_a_row_that_no_record_can_hold_is_refused() -> None:
    sink = sink_on(MemoryChannel(largest=4_000))
    sink.begin(1, (0, 0))
    with pytest.raises(NadiError, match="REFUSED"):
        sink.write(delivery(1, [("x" * 5_000, 1, 1, 0)]))
    receipt = sink.write(delivery(1, [("x" * 500, i, i, i) for i in range(50)]))
    sink.announce(1, 60, [receipt])


def test_records_of_another_version_or_make_are_refused() -> None:
    channel = MemoryChannel()
    sink_on(channel).begin(1, (0, 0))
    record = channel.log[0][1]
    assert decode_progress(record) == decode_progress(encode_progress(decode_progress(record)))
    for wrong in (b"", b"{}", record[:5] + b"\x09" + record[6:], record[:-3], b"x" + record[1:]):
        with pytest.raises(NadiError, match="CHANNEL_RECORD"):
            decode_progress(wrong)
    with pytest.raises(NadiError, match="CHANNEL_RECORD"):
        decode_batch(record)


# ---- properties ----------------------------------------------------------------------------------------------------

CUTS = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9), st.integers(0, 1)), max_size=6), max_size=5
)
"""Of each cut the rows: key, value, how much later than the one before."""


def _rows(cuts: list[list[tuple[str, int, int]]]) -> list[tuple[list[Row], int]]:
    """With order times and chunks, and the clock of each cut."""
    made, time, chunk = [], 0, 0
    for cut in cuts:
        rows = []
        for key, value, later in cut:
            chunk += later > 0
            time += later
            rows.append((key, value, time, chunk))
        time += len(cut) % 2  # what comes next may be as early as the clock
        chunk += 1
        made.append((rows, time))
    return made


def _merged(plans: list[list[tuple[list[Row], int]]], parts: int) -> list[tuple[int, int, int, str, int]]:
    """What a channel has when each producer has given all its cuts, one after the other."""
    channel = MemoryChannel()
    for number, plan in enumerate(plans):
        sink = sink_on(MemoryChannel(channel), f"p{number}", parts, **({"key": "key"} if parts > 1 else {}))
        sink.begin(1, (0, 0))
        first = 0
        for cut, (rows, clock) in enumerate(plan, 1):
            give(sink, delivery(cut, rows, first, clock=clock))
            first += len(rows)
    return all_of(log_on(channel, [f"p{i}" for i in range(len(plans))], parts))


@settings(max_examples=60, deadline=None)
@given(st.lists(CUTS, min_size=1, max_size=3), st.sampled_from([1, 3]), st.integers(0, 1 << 32))
def test_readers_take_the_same_however_late_producers_are_and_however_often_they_begin_anew(plans, parts, seed) -> None:  # type: ignore[no-untyped-def]
    random = Random(seed)
    planned = [_rows(cuts) for cuts in plans]
    whole = _merged(planned, parts)
    channel = MemoryChannel()
    names = [f"p{i}" for i in range(len(plans))]
    more = {"key": "key"} if parts > 1 else {}
    sinks = [sink_on(MemoryChannel(channel), name, parts, **more) for name in names]
    state = [[1, 0, 0] for _ in names]  # epoch, cuts done, rows done
    for sink in sinks:
        sink.begin(1, (0, 0))
    log = log_on(channel, names, parts)
    ends = [0] * log.partitions()
    taken: list[tuple[int, int, int, str, int]] = []
    left = [i for i, plan in enumerate(planned) for _ in plan]
    random.shuffle(left)
    clock = -1
    for i in [*left, -1]:
        if i >= 0:
            epoch, done, first = state[i]
            rows, at = planned[i][done]
            of = delivery(done + 1, rows, first, clock=at, epoch=epoch)
            receipt = sinks[i].write(of)
            if random.random() < 0.3:  # killed, and nobody knows whether it had announced
                if random.random() < 0.5:
                    sinks[i].announce(of.cut, at, [receipt])
                sinks[i] = sink_on(MemoryChannel(channel), names[i], parts, **more)
                sinks[i].begin(epoch + 1, (done, done + 1))
                state[i][0] = epoch + 1
                receipt = sinks[i].write(of)
            sinks[i].announce(of.cut, at, [receipt])
            state[i][1:] = [done + 1, first + len(rows)]
        else:
            for sink in sinks:
                sink.finish()
        if random.random() < 0.4 and i >= 0:
            continue  # the reader does not look
        if random.random() < 0.2:
            log = log_on(channel, names, parts)  # it was killed, too
        waiting = [Waiting((0, p), ends[p], log.end(p)) for p in range(log.partitions())]
        clocks = {(0, p): log.reached(p) for p in range(log.partitions())}
        frontier = frontier_of(clocks)
        if frontier is not None:
            assert frontier.time >= clock
            clock = frontier.time
            waiting = within(waiting, frontier, clocks, partial(_later, log))
        came = []
        for w in waiting:
            for messages in log.read(w.place[1], w.start, w.end):
                rows_of = messages.payloads
                keys, values = rows_of.column(0).to_pylist(), rows_of.column(1).to_pylist()
                came += list(
                    zip(
                        messages.times.tolist(),
                        [w.place[1]] * len(keys),
                        messages.positions.tolist(),
                        keys,
                        values,
                        strict=True,
                    )
                )
            ends[w.place[1]] = w.end
        taken += sorted(came, key=lambda r: r[:3])
    assert taken == whole


def _later(log: ChannelLog, place: tuple[int, int], time: int, end: int) -> int:
    found = log.later_than(place[1], time)
    return end if found is None else min(end, found)


def test_without_a_word_of_some_producer_nothing_is_taken() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel, "p0")
    sink.begin(1, (0, 0))
    give(sink, delivery(1, ROWS))
    log = log_on(channel, ["p0", "p1"])
    waiting = [Waiting((0, p), 0, log.end(p)) for p in range(2)]
    clocks = {(0, p): log.reached(p) for p in range(2)}
    frontier = frontier_of(clocks)
    assert frontier == Frontier(-1, (0, 1))
    left = within(waiting, frontier, clocks, partial(_later, log))
    assert [w.end for w in left] == [0, 0]


def test_a_reader_hears_no_record_of_an_older_run() -> None:
    channel = MemoryChannel()
    old = sink_on(channel)
    old.begin(1, (0, 0))
    give(old, delivery(1, ROWS))
    new = sink_on(MemoryChannel(channel))
    new.begin(2, (1, 1))
    track = Track(1, frozenset([0]))
    heard = [track.take(told.place, told.progress) for told in channel.told * 2]
    assert heard == [True, True, True, False, False, True]
    assert (track.epoch, track.ends) == (2, [3])


def test_bounded_cuts_find_where_a_time_ends_inside_of_a_cut_of_the_producer() -> None:
    channel = MemoryChannel()
    sink = sink_on(channel)
    sink.begin(1, (0, 0))
    give(sink, delivery(1, [("k", i, 10 * (i // 3), i // 3) for i in range(3000)]))
    log = log_on(channel)
    assert log.end(0) == 1000
    assert log.later_than(0, 4_995) == 500
    assert log.later_than(0, 9_990) is None
    assert [log.time_at(0, p, 1000) for p in (0, 700, 1000)] == [0, 7_000, None]
    (messages,) = log.read(0, 200, 400)
    assert np.unique(messages.positions).tolist() == list(range(200, 400))
    assert channel.reads == 1
