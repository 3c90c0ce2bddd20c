"""The `unique:*` windows and `unique:deduplicate`, chunk by chunk: one event per key (semantics/windows.md#unique-windows)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windowrig import Rig

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.rows.keyedqueue import CELLS, KeyedQueue
from nadi.plan import plan_app
from nadi.runtime import Runtime

S = "define stream S (k string, v int, at long);\n"


# ---- sliding -------------------------------------------------------------------------------------------------------


def test_the_latest_event_of_a_key_takes_the_place_of_the_one_before_which_leaves_first() -> None:
    rig = Rig("unique:ever", "key")
    rig.send(10, 1, key="a")
    rig.send(20, 2, key="b")
    rig.send(30, 3, key="a")
    assert rig.take() == ["C1@10", "C2@20", "X1@30 C3@30"]
    assert rig.content() == [2, 3]


def test_a_key_of_several_attributes_is_their_combination_and_not_their_text_in_a_row() -> None:
    rig = Rig("unique:ever", "key", "v")
    rig.send(10, 11, key="a")
    rig.send(20, 1, key="a1")
    rig.send(30, 11, key="a")
    assert rig.take() == ["C11@10", "C1@20", "X11@30 C11@30"]


def test_only_the_first_event_of_a_key_passes_and_nothing_leaves() -> None:
    rig = Rig("unique:first", "key", searched=True)
    for ts, key in ((10, "a"), (20, "b"), (30, "a"), (40, "c")):
        rig.send(ts, ts, key=key)
    assert rig.take() == ["C10@10", "C20@20", "C40@40"]
    assert rig.content() == [10, 20, 40]


def test_events_of_one_chunk_leave_as_they_are_replaced() -> None:
    rig = Rig("unique:ever", "key")
    rig.send(10, 1, 2, 3, key="a")
    assert rig.take() == ["C1@10 X1@10 C2@10 X2@10 C3@10"]


def test_a_length_window_of_keys_lets_the_older_event_of_the_key_go_and_else_the_oldest() -> None:
    rig = Rig("unique:length", "key", 2)
    for ts, key in ((10, "a"), (20, "b"), (30, "a"), (40, "c"), (50, "b")):
        rig.send(ts, ts, key=key)
    assert rig.take() == ["C10@10", "C20@20", "X10@30 C30@30", "X20@40 C40@40", "X30@50 C50@50"]
    assert rig.content() == [40, 50]


def test_a_key_whose_event_has_left_a_length_window_comes_again_like_a_new_one() -> None:
    rig = Rig("unique:length", "key", 1)
    for ts, key in ((10, "a"), (20, "b"), (30, "a")):
        rig.send(ts, ts, key=key)
    assert rig.take() == ["C10@10", "X10@20 C20@20", "X20@30 C30@30"]


def test_a_length_window_of_no_keys_lets_each_event_go_at_once() -> None:
    rig = Rig("unique:length", "key", 0)
    rig.send(10, 1)
    assert rig.take() == ["C1@10 X1@10 R"]


def test_a_time_window_of_keys_expires_by_time_and_by_key() -> None:
    rig = Rig("unique:time", "key", 100, live=True)
    rig.send(0, 1, key="a")
    rig.send(10, 2, key="b")
    rig.send(60, 3, key="a")
    rig.clock(300)
    assert rig.out == [(0, "C1@0"), (10, "C2@10"), (60, "X1@60 C3@60"), (110, "X2@110"), (160, "X3@160")]
    assert rig.flow.timers.next_due() is None


def test_in_playback_what_is_old_leaves_before_what_is_replaced() -> None:
    rig = Rig("unique:time", "key", 100)
    rig.send(0, 1, key="a")
    rig.send(90, 2, key="b")
    rig.send(150, 3, key="b")
    assert rig.take() == ["C1@0", "C2@90", "X1@150", "X2@150 C3@150"]


def test_a_null_key_is_the_key_null() -> None:
    app = S + "from S#window.unique:ever(k) select v insert all events into Out;"
    assert _values(app, (None, 1), (None, 2), ("null", 3)) == [1, 1, 2, 2, 3]


def test_a_key_may_be_an_expression() -> None:
    app = S + "from S#window.unique:ever(v % 10) select v insert expired events into Out;"
    assert _values(app, ("a", 1), ("a", 2), ("a", 11), ("a", 12)) == [1, 2]


# ---- batches -------------------------------------------------------------------------------------------------------


def test_a_length_batch_of_keys_goes_out_with_the_nth_key_and_holds_the_latest_of_each() -> None:
    rig = Rig("unique:lengthBatch", "key", 2)
    for ts, key in ((10, "a"), (20, "a"), (30, "b"), (40, "b"), (50, "a")):
        rig.send(ts, ts, key=key)
    assert rig.take() == ["R C20@20 C30@30", "X20@50 X30@50 R C40@40 C50@50"]
    assert rig.content() == [40, 50]


def test_a_first_length_batch_holds_the_first_of_each_key() -> None:
    rig = Rig("unique:firstLengthBatch", "key", 2, keeps=False)
    for ts, key in ((10, "a"), (20, "a"), (30, "b"), (40, "b")):
        rig.send(ts, ts, key=key)
    assert rig.take() == ["R C10@10 C30@30"]


@pytest.mark.parametrize(
    ("name", "batch"), [("unique:timeBatch", "R C3@1200 C2@1100"), ("unique:firstTimeBatch", "R C1@1000 C2@1100")]
)
def test_a_time_batch_of_keys_holds_one_event_of_each_at_the_place_of_the_first(name: str, batch: str) -> None:
    rig = Rig(name, "key", 1000, live=True)
    rig.send(1000, 1, key="a")
    rig.send(1100, 2, key="b")
    rig.send(1200, 3, key="a")
    rig.clock(5000)
    expired = batch[2:].replace("C", "X")
    left = " ".join(part.split("@")[0] + "@3000" for part in expired.split())
    assert rig.out == [(2000, batch), (3000, left)]


def test_a_time_batch_of_keys_with_a_start_time_keeps_to_its_grid() -> None:
    rig = Rig("unique:timeBatch", "key", 1000, 300, live=True, keeps=False)
    rig.send(1000, 1, key="a")
    rig.clock(5000)
    assert rig.out == [(1300, "R C1@1000")]


def test_a_time_length_batch_goes_out_with_the_nth_key_and_passes_over_the_rest_of_the_period() -> None:
    rig = Rig("unique:timeLengthBatch", "key", 1000, 2, live=True)
    for ts, key in ((100, "a"), (200, "b"), (300, "c"), (1150, "a"), (1200, "a"), (1300, "b"), (1400, "c")):
        rig.send(ts, ts, key=key)
    rig.clock(9000)
    assert rig.out == [
        (200, "R C100@100 C200@200"),
        (1300, "X100@1300 X200@1300 R C1200@1200 C1300@1300"),
        (3100, "X1200@3100 X1300@3100"),
    ]
    assert rig.flow.timers.next_due() is None


def test_a_time_length_batch_that_stays_small_goes_out_at_its_boundary() -> None:
    rig = Rig("unique:timeLengthBatch", "key", 1000, 0, 3, live=True, keeps=False)
    rig.send(100, 1, key="a")
    rig.send(200, 2, key="a")
    rig.clock(9000)
    assert rig.out == [(1000, "R C2@200")]


def test_an_external_time_batch_of_keys_is_flushed_by_the_time_attribute() -> None:
    rig = Rig("unique:externalTimeBatch", "key", "at", 100)
    for v, at, key in ((1, 0, "a"), (2, 50, "b"), (3, 60, "a"), (4, 120, "a"), (5, 210, "a")):
        rig.send(v, v, at=at, key=key)
    assert rig.take() == ["R C3@3 C2@2", "X3@210 X2@210 R C4@4"]


def test_what_comes_after_a_timeout_replaces_what_was_sent_of_its_key() -> None:
    rig = Rig("unique:externalTimeBatch", "key", "at", 100, 0, 30, live=True)
    rig.send(0, 1, at=10, key="a")
    rig.send(5, 2, at=20, key="b")
    rig.clock(40)
    assert rig.take() == ["R C1@0 C2@5"]
    rig.send(41, 3, at=30, key="a")
    rig.clock(80)
    assert rig.take() == ["X1@30 X2@30 R C3@41 C2@5"]
    assert rig.content() == [3, 2]


def test_an_external_time_batch_of_keys_can_show_the_end_of_the_batch_as_the_time() -> None:
    app = S + ("from S#window.unique:externalTimeBatch(k, at, 100, 0, 1 sec, true) select at as v insert into Out;")
    assert _values(app, ("a", 1, 20), ("b", 2, 30), ("a", 3, 130)) == [100, 100]


# ---- deduplicate ---------------------------------------------------------------------------------------------------


def test_repeats_within_the_time_are_dropped_and_do_not_lengthen_it() -> None:
    app = S + "from S#unique:deduplicate(k, 100) select v insert into Out;"
    runtime, found = _runtime(app)
    for ts, key, v in ((0, "a", 1), (50, "a", 2), (60, "b", 3), (100, "a", 4), (101, "a", 5), (201, "a", 6)):
        runtime.advance_to(ts)
        runtime.send("S", [(ts, (key, v, 0))])
    assert found == [1, 3, 5]


def test_repeats_are_told_by_the_timestamps_of_events() -> None:
    app = "@app:playback " + S + "from S#unique:deduplicate(k, 100) select v insert into Out;"
    runtime, found = _runtime(app)
    for ts, v in ((1000, 1), (950, 2), (1101, 3)):
        runtime.send("S", [(ts, ("a", v, 0))])
    assert found == [1, 3]


def test_keys_that_have_not_come_for_the_time_are_forgotten() -> None:
    runtime, _found = _runtime(S + "from S#unique:deduplicate(k, 100) select v insert into Out;")
    for n in range(50):
        runtime.advance_to(n)
        runtime.send("S", [(n, (f"key {n}", n, 0))])
    runtime.advance_to(1000)
    held = {name: size for name, size in runtime.kernel.size().items() if "deduplicate" in name}
    assert held == {"unnamed_1/deduplicate_1": 2, "unnamed_1/deduplicate_1/timer": 0}  # two counters


def test_a_stream_processor_in_a_pattern_is_refused() -> None:
    app = S + "from every e1=S#unique:deduplicate(k, 100) -> e2=S select e1.v as v insert into Out;"
    with pytest.raises(NadiError, match="'unique:deduplicate', which keeps events"):
        Runtime(app)


# ---- refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("#window.unique:ever()", "takes"),
        ("#window.unique:length(k)", "takes"),
        ("#window.unique:length(k, v)", "'window.length', must be a constant"),
        ("#window.unique:length(k, -1)", "'window.length' must not be negative"),
        ("#window.unique:lengthBatch(k, 0)", "'window.length' must be greater than 0"),
        ("#window.unique:time(k, 0)", "'window.time' must be greater than 0"),
        ("#window.unique:time(k, '2 sec')", "'window.time', must be int or long"),
        ("#window.unique:timeLengthBatch(k, 1 sec)", "takes"),
        ("#window.unique:externalTimeBatch(k, v, 1 sec)", "'time.stamp', must be long"),
        ("#unique:deduplicate(k)", "takes"),
        ("#unique:deduplicate(k, at)", "'time.interval', must be a constant"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_reason(call: str, reason: str) -> None:
    with pytest.raises(NadiError, match=reason) as refused:
        plan_app(S + f"from S{call} select k insert into Out;", default_registry())
    assert refused.value.condition == "WRONG_ARGUMENTS"


# ---- sharding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "kind"),
    [
        ("unique:time(v, 1 sec)", "key"),
        ("unique:timeBatch(v, 1 sec)", "single"),
        ("unique:timeBatch(v, 1 sec, 0)", "key"),
        ("unique:firstTimeBatch(v, 1 sec)", "single"),
        ("unique:timeLengthBatch(v, 1 sec, 5)", "single"),
        ("unique:timeLengthBatch(v, 1 sec, 0, 5)", "key"),
    ],
)
def test_a_batch_by_time_without_a_start_shares_its_phase_over_all_keys(window: str, kind: str) -> None:
    query = f"from S#window.{window} select k insert into Out;"
    app = plan_app(f"{S}partition with (k of S) begin {query} end;", default_registry())
    assert app.sharding.kind == kind
    if kind == "single":
        assert "shares its phase over all keys; to lift it, give it a start time" in " ".join(app.sharding.reasons)


# ---- the queue of keys ---------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    moves=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["put", "take", "popleft"])), max_size=200)
)
def test_a_queue_of_keys_is_an_ordered_dictionary(moves: list[tuple[str, str]]) -> None:
    cells = {name: kind(lambda: None) for name, kind in CELLS.items()}
    queue, model = KeyedQueue(cells), {}
    for n, (key, move) in enumerate(moves):
        if move == "put":
            assert queue.put(key, n, (key,)) == model.pop(key, None)
            model[key] = (n, (key,))
        elif move == "take":
            assert queue.take(key) == model.pop(key, None)
        elif model:
            assert queue.popleft() == model.pop(next(iter(model)))
        assert queue.oldest() == next(iter(model.values()), None)
        assert queue.events() == list(model.values())
        assert len(queue) == len(model)
        assert len(cells["order"]) <= 2 * len(model) + 16


# ---- the rig -------------------------------------------------------------------------------------------------------


def _runtime(app: str) -> tuple[Runtime, list[Any]]:
    runtime = Runtime(app)
    found: list[Any] = []
    runtime.on_stream("Out", lambda events: found.extend(e.row[0] for e in events))
    runtime.start()
    return runtime, found


def _values(app: str, *rows: tuple[Any, ...]) -> list[Any]:
    runtime, found = _runtime(app)
    for row in rows:
        runtime.send("S", [(None, (*row, 0)[:3])])
    assert not runtime.failures
    return found
