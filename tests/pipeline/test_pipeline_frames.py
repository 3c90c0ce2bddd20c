"""State frames, labels, fat rows, buckets, the error store: what needs neither Spark nor hosts."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.kernel.contract import ORDER, TS, Segment
from nadi.kernel.keys import bucket_of_group, key_group
from nadi.pipeline.engine import plan_app
from nadi.pipeline.inputs.fatrows import gather, to_ipc
from nadi.pipeline.inputs.splitters import make_splitter
from nadi.pipeline.labels import labels, spark_hash
from nadi.pipeline.state import frames as frames_of_state
from nadi.pipeline.state.frames import base_stream, delta_stream, from_frames, to_frames


@given(
    st.lists(st.binary(max_size=40), max_size=6),
    st.lists(st.binary(min_size=1, max_size=40), max_size=4),
    st.integers(8, 50),
    st.sampled_from((1, 20, 1_000)),
)
def test_frames_give_back_segments_and_deltas_in_order(
    payloads: list[bytes], deltas: list[bytes], size: int, large: int
):
    """Whether nothing is packed, as in version 2 of the format, or some, or all of it."""
    segments = [Segment(f"e{i}", i, p) for i, p in enumerate(payloads)]
    with patch.object(frames_of_state, "_LARGE", large):
        frames = to_frames(base_stream(segments), size)
        for delta in deltas:
            frames += to_frames(delta_stream(delta), size)
    assert all(len(f) <= size for f in frames)
    assert list(from_frames(frames)) == [*segments, *deltas]


def test_a_state_that_is_cut_short_is_not_loaded():
    frames = to_frames(delta_stream(b"x" * 100), 50)
    with pytest.raises(ValueError, match="cut short"):
        list(from_frames(frames[:-1]))


@pytest.mark.parametrize("length", [1 << 33, (1 << 64) - 1])
def test_a_length_that_no_payload_has_is_refused_before_memory_is_taken_for_it(length: int):
    """Finding 14: whoever could write to a state may claim any length."""
    packed = length.to_bytes(8, "big") + pa.Codec("zstd").compress(b"x" * 100, asbytes=True)
    for head in ((4).to_bytes(1) + len(packed).to_bytes(8, "big"), (2).to_bytes(1) + length.to_bytes(8, "big")):
        with pytest.raises(ValueError, match=r"claims to have|cut short"):
            list(from_frames([head + packed]))


def test_a_length_that_the_content_does_not_have_is_refused():
    packed = (1_000).to_bytes(8, "big") + pa.Codec("zstd").compress(b"x" * 1_001, asbytes=True)
    with pytest.raises((ValueError, OSError)):
        list(from_frames([(4).to_bytes(1) + len(packed).to_bytes(8, "big") + packed]))


def test_what_is_large_is_packed():
    segments = [Segment("e", 0, b"twelve bytes" * 100_000)]
    delta = b"and again" * 100_000
    frames = [*to_frames(base_stream(segments)), *to_frames(delta_stream(delta))]
    assert sum(map(len, frames)) < 100_000
    assert list(from_frames(frames)) == [*segments, delta]


@pytest.mark.parametrize("kind", [0, 5])
def test_records_of_another_format_are_not_taken_for_something_else(kind: int):
    (frame,) = to_frames(delta_stream(b"delta"))
    with pytest.raises(ValueError, match=f"kind {kind}"):
        list(from_frames([bytes([kind]) + frame[1:]]))


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 3, 7])
def test_labels_fall_into_a_partition_of_their_own(count: int):
    assert [spark_hash(label) % count for label in labels(count)] == list(range(count))


def test_more_buckets_than_partitions_share_them_evenly():
    found = labels(8, 3)
    assert len(set(found)) == 8
    assert [spark_hash(label) % 3 for label in found] == [i % 3 for i in range(8)]


def events(order: list[int], positions: list[int]) -> bytes:
    n = len(order)
    columns = {"x": positions, ORDER: order, "__position": positions, "__run": [0] * n, TS: order, "__group": [0] * n}
    return to_ipc(pa.RecordBatch.from_pydict(columns))


def row(split: int, own: bool = False) -> dict[str, object]:
    return {"k": "events", "o": 0, "p": 0, "s": split, "q": 0, "t": own}


def clock(ranges: list[list[int | None]], at: int = 1000) -> dict[str, object]:
    return {"k": "clock", "n": 3, "clock": at, "started": 1, "ranges": ranges}


def test_splits_of_a_range_are_put_in_order_and_share_one_running_maximum():
    rows = [
        (row(1), events([70, 90], [2, 3])),
        (clock([[0, 0, 1, 50, 90]]), b""),
        (row(0), events([40, 80], [0, 1])),
        (clock([[0, 0, 0, 50, 80]]), b""),
    ]
    found = gather(rows, {0: "In"})
    orders = [a.batch.column(1).to_pylist() for a in found.arrivals]
    assert orders == [[50, 80], [80, 90]]
    assert [a.batch.column(4).to_pylist() for a in found.arrivals] == orders
    assert found.highs == {(0, 0): 90}


def test_order_times_are_capped_by_the_clock_and_own_timestamps_stay():
    found = gather([(row(0, own=True), events([40, 2000], [0, 1])), (clock([[0, 0, 0, None, 2000]]), b"")], {0: "In"})
    batch = found.arrivals[0].batch
    assert batch.column(1).to_pylist() == [40, 1000]
    assert batch.column(4).to_pylist() == [40, 2000]
    assert found.highs == {(0, 0): 2000}


def test_a_cut_without_a_clock_row_is_an_error():
    with pytest.raises(ValueError, match="clock"):
        gather([(row(0), events([1], [0]))], {0: "In"})


KEYED = """define stream In (k string, n int);
partition with (k of In) begin from In#window.length(2) select k, sum(n) as s insert into Out; end;"""


def test_keys_go_to_the_bucket_of_their_key_group_and_null_keys_are_dropped():
    app = plan_app(KEYED)
    if app.sharding.kind != "key":
        pytest.skip("the plan does not shard this app")
    split = make_splitter(app, "In", app.streams["In"].schema, 4)
    batch = pa.RecordBatch.from_pydict({"k": ["a", "a", None, "b", "a"], "n": [1, 2, 3, 4, 5]})
    found = split(batch, np.array([0, 0, 0, 0, 1]), 0)
    assert found.kept.tolist() == [0, 1, 3, 4]
    assert found.groups.tolist() == [key_group(k) for k in "aaba"]
    assert found.buckets.tolist() == [bucket_of_group(key_group(k), 4) for k in "aaba"]
    assert found.runs.tolist() == [0, 0, 1, 0]
