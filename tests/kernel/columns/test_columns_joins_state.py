"""Joins on columns: what they hold, what a delta costs, what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.functions.registry import default_registry
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.kernel.columns.joins import BatchedJoin, Join
from nadi.kernel.keys import key_group
from nadi.plan import plan_app
from nadi.plan.columns.islands import islands
from tests.kernel.columns.test_columns_patterns_state import _STREAMS, _columns, _feed, _rows

_FLAT = _STREAMS + (
    "from S#window.time(10 millisec) as a join R#window.time(10 millisec) as b on a.k == b.k"
    " select a.k as k, a.w as w, b.w as x, a.v + b.v as v insert into Out;"
)
_KEYED = _STREAMS + (
    "partition with (k of S, k of R) begin from S#window.length(2) as a join R#window.time(1 sec) as b"
    " select a.k as k, a.w as w, b.v as v insert into Out; end;"
)
_KEYED_BATCHES = _STREAMS + (
    "partition with (k of S, k of R) begin from S#window.timeLength(20 millisec, 2) as a join R#window.lengthBatch(2) as b"
    " select a.k as k, a.w as w, b.v as v, sum(b.v) as s insert into Out; end;"
)
_BATCHES = _STREAMS + (
    "from S#window.timeLength(1 sec, 500) as a join R#window.lengthBatch(300) as b on a.k == b.k"
    " select a.k as k, a.w as w, b.w as x insert into Out;"
)
_TOTALS = _STREAMS + (
    "from S#window.time(10 millisec) as a join R[not (w is null)]#window.length(300) as b on a.k == b.k"
    " select a.k as k, sum(b.v) as s, count() as n, distinctCount(b.w) as d, min(a.v) as m group by a.k insert into Out;"
)


def _join(kernel: ColumnsKernel) -> Join:
    (operator,) = (one.operator for one in kernel._running)
    operator = operator._join if isinstance(operator, BatchedJoin) else operator
    assert isinstance(operator, Join)
    return operator


@pytest.mark.parametrize("text", [_FLAT, _TOTALS, _BATCHES])
def test_texts_that_nothing_refers_to_are_forgotten(text: str) -> None:
    plan = plan_app(text, default_registry())
    columns, rows = _columns(plan), _rows(plan)
    for turn in range(8):
        events = [("SR"[i % 2], 20 * turn, f"key{turn}_{i // 4}", i) for i in range(2000)]
        made = _feed(columns, plan, events, 10_000 * turn)
        assert made
        assert made == _feed(rows, plan, events, 10_000 * turn)
        columns.delta()
    assert _join(columns)._table.count < 8000  # of 8 times 500 keys and 2,000 other texts


def test_a_group_that_holds_anything_is_not_forgotten_with_its_events() -> None:
    text = _STREAMS + (
        "from S#window.time(10 millisec) as a left outer join R#window.length(10) as b on a.k == b.k"
        " select a.k as k, count() as n group by a.k insert into Out;"
    )
    plan = plan_app(text, default_registry())
    columns, rows = _columns(plan), _rows(plan)
    for turn in range(4):
        keys = [f"key{turn}_{i}" for i in range(600)]
        events = [
            (stream, 20 * turn, key, 1) for key in keys for stream in "SR"
        ]  # each key comes alone first, and is never taken off again
        assert _feed(columns, plan, events, 10_000 * turn) == _feed(rows, plan, events, 10_000 * turn)
        columns.delta()
    again = [("S", 200, f"key0_{i}", 1) for i in range(600)]
    made = _feed(columns, plan, again, 100_000)
    assert made == _feed(rows, plan, again, 100_000)
    assert {row["n"] for row in made} != {1}


# not timeBatch: in a join that inserts current events alone it forgets no batch
@pytest.mark.parametrize("window", ["time(10 millisec)", "timeLength(10 millisec, 1)"])
def test_keys_that_have_no_events_any_more_hold_none_when_room_is_needed(window: str) -> None:
    text = _STREAMS + (
        f"partition with (k of S, k of R) begin from S#window.{window} as a join R#window.time(10 millisec) as b"
        " on b.v >= a.v select a.v as v, b.v as x insert into Out; end;"
    )
    plan = plan_app(text, default_registry())
    columns, rows = _columns(plan), _rows(plan)
    for turn in range(20):
        events = [("SR"[i % 2], 20 * turn, f"{turn}_{i // 2}", i) for i in range(1000)]
        assert _feed(columns, plan, events, 1000 * turn) == _feed(rows, plan, events, 1000 * turn)
    assert sum(columns.size()[held.element] for held in _join(columns)._held) <= 4000


def test_one_event_may_meet_more_than_there_was_room_for() -> None:
    plan = plan_app(_FLAT, default_registry())
    columns, rows = _columns(plan), _rows(plan)
    opening = [("S", 0, "ab"[i % 2], i) for i in range(4000)]
    assert _feed(columns, plan, opening) == _feed(rows, plan, opening) == []
    columns.load(list(columns.dump()))
    closing = [("R", 5, "a", 1), ("R", 6, "b", 2), ("R", 6, "c", 2), ("S", 7, "a", 2)]
    made = _feed(columns, plan, closing, 4000)
    assert len(made) == 4001
    assert made == _feed(rows, plan, closing, 4000)


def test_a_batch_may_meet_more_than_there_was_room_for() -> None:
    plan = plan_app(_BATCHES.replace("300", "3000"), default_registry())
    columns, rows = _columns(plan), _rows(plan)
    opening = [("S", 0, "ab"[i % 2], i) for i in range(3)] + [("R", 0, "ab"[i % 2], i) for i in range(2999)]
    assert _feed(columns, plan, opening) == _feed(rows, plan, opening) == []
    columns.load(list(columns.dump()))
    made = _feed(columns, plan, [("R", 5, "a", 1)], 4000)
    assert len(made) == 2 * 1501 + 1499
    assert made == _feed(rows, plan, [("R", 5, "a", 1)], 4000)


def test_what_leaves_a_left_window_when_a_right_batch_ends_leaves_before() -> None:
    text = _STREAMS + (
        "from S#window.time(25 millisec) as a left outer join R#window.timeBatch(10 millisec) as b"
        " select b.k as k, maxForever(a.v) as m group by b.k insert into Out;"
    )
    plan = plan_app(text, default_registry())
    columns, rows = _columns(plan), _rows(plan)
    # the event of 105 leaves at 130, when the batch of 111 is over: that one never was without a match, nor is that of 140, as the window keeps all batches
    events = [("R", 90, "r", 0), ("R", 101, "r", 0), ("S", 105, "s", 9), ("R", 111, "r", 0), ("S", 140, "s", 1)]
    made = _feed(columns, plan, events)
    assert made == _feed(rows, plan, events)
    assert [(row["k"], row["m"]) for row in made] == [("r", 9)] * len(made)
    assert len(made) > 3


def test_an_index_that_has_grown_finds_what_was_there_before() -> None:
    plan = plan_app(_FLAT.replace("a.k == b.k", "a.v == b.v"), default_registry())
    columns, rows = _columns(plan), _rows(plan)
    for turn in range(3):
        events = [("SR"[i % 2], turn, "k", (i // 2 * 7919 + turn) % 5000) for i in range(4000)]
        made = _feed(columns, plan, events, 4000 * turn)
        assert len(made) > 1000
        assert made == _feed(rows, plan, events, 4000 * turn)


@pytest.mark.parametrize("text", [_FLAT, _KEYED, _TOTALS, _BATCHES, _KEYED_BATCHES])
def test_a_delta_of_a_join_costs_what_changed(text: str) -> None:
    plan = plan_app(text, default_registry())
    columns = _columns(plan)
    _feed(columns, plan, [("SR"[i % 2], 0, f"k{i % 700}", i + 1) for i in range(2000)])
    assert len(columns.delta()) > 20_000
    _feed(columns, plan, [("S", 1, f"k{2 * i}", 1) for i in range(5)], 2000)
    assert len(columns.delta()) < 3_000
    assert columns.delta() == b""


def test_a_key_with_many_events_comes_in_several_segments() -> None:
    plan = plan_app(
        _STREAMS + "from S#window.length(70000) as a join R as b select a.w as w, b.w as x insert into Out;",
        default_registry(),
    )
    columns, rows = _columns(plan), _rows(plan)
    opening = [("S", 0, "a", i) for i in range(70_000)]
    assert _feed(columns, plan, opening) == _feed(rows, plan, opening) == []
    segments = [s for s in columns.dump() if s.element.endswith("window")]
    assert len(segments) > 1
    columns.load(list(columns.dump()))
    assert _feed(columns, plan, [("R", 1, "b", 1)], 70_000) == _feed(rows, plan, [("R", 1, "b", 1)], 70_000)


@pytest.mark.parametrize("text", [_KEYED, _KEYED_BATCHES])
def test_segments_of_a_join_can_be_dealt_out_by_key_group_and_brought_together_again(text: str) -> None:
    plan = plan_app(text, default_registry())
    assert plan.sharding.kind == "key"
    whole, rows, halves = _columns(plan), _rows(plan), [_columns(plan), _columns(plan)]
    events = [("SR"[i % 3 % 2], i, f"k{i * 7 % 40}", i * 13 % 17) for i in range(300)]
    assert _feed(whole, plan, events) == _feed(rows, plan, events)
    segments = list(whole.dump())
    for half, kernel in enumerate(halves):
        kernel.load([s for s in segments if s.group % 2 == half or s.element == "app/clock"])
    more = [("SR"[i % 2], 300 + i, f"k{i * 11 % 40}", i * 5 % 19) for i in range(300)]
    for half, kernel in enumerate(halves):
        _feed(kernel, plan, [e for e in more if key_group(e[2]) % 2 == half], 300)
    assert _feed(rows, plan, more, 300)
    joined = _columns(plan)
    joined.load([*(s for kernel in halves for s in kernel.dump())])
    again = [("RS"[i % 2], 700 + i, f"k{i % 40}", i % 23) for i in range(200)]
    assert _feed(joined, plan, again, 900) == _feed(rows, plan, again, 900)


_PLAYED = "@app:playback\n"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "from S#window.sort(2, v) as a join R as b select a.v as v insert into Out;",
            "no operator in joins yet",
        ),
        (
            "from S#window.timeBatch(1 sec, true) as a join R as b select a.v as v insert into Out;",
            "stream.current.event",
        ),
        (
            "define stream L (v int, t long); from L#window.externalTimeBatch(t, 1 sec) as a join R as b select a.v as v insert into Out;",
            "fails where its time",
        ),
        (
            _PLAYED + "from S#window.timeBatch(1 sec) as a join R as b select a.v as v insert into Out;",
            "which the join would have to see",
        ),
        (
            _PLAYED + "from S#window.timeLength(1 sec, 2) as a join R as b select a.v as v insert into Out;",
            "which the join would have to see",
        ),
        (
            "partition with (k of S, k of R) begin from S#window.length(2) as a join R#window.lengthBatch(2) as b"
            " select sum(a.v) as v group by a.v insert into Out; end;",
            "empties all groups",
        ),
        (
            "from S#window.lengthBatch(2) as a join R#window.length(2) as b select a.v as v output first every 2 events insert into Out;",
            "and of batches",
        ),
        (
            "define stream T (v int); from S#window.batch(2) as a join R#window.length(2) as b select a.v as v insert into M;"
            " from M#window.length(2) as a join T as b select a.v as v insert into Out;",
            "merged in order",
        ),
        (
            "from S#window.timeBatch(1 sec) as a join R#window.length(2) as b select a.v as v insert into M;"
            " from M#window.timeBatch(1 sec) select sum(v) as v insert into Out;",
            "both put out something by themselves",
        ),
        ("from S#window.length(2) as a join R as b select distinctCount(a.v) as v insert into Out;", "may be null"),
        ("from S#window.length(2) as a join R as b on a.k == 'x' select a.v as v insert into Out;", "with a constant"),
        ("from S#window.length(2) as a join R as b select a.v as v order by b.v insert into Out;", "no output column"),
        (
            "from S#window.length(2) as a join R as b select distinctCount(a.v + b.v) as v insert into Out;",
            "no attribute that is",
        ),
        (
            "partition with (k of S, k of R) begin from S#window.length(2) as a left outer join R#window.length(2) as b"
            " select sum(a.v) as v group by b.v insert into Out; end;",
            "that may be absent",
        ),
        (
            "partition with (k of S, k of R) begin from S#window.length(2) as a join R as b select sum(a.v) as v group by a.v insert into Out; end;",
            "empties all groups",
        ),
        (
            "from S#window.length(2) as a join R as b select a.v as v output first every 2 events insert into Out;",
            "no window",
        ),
        (
            "from S#window.length(2) as a join R as b select a.k as k, sum(a.v) as v group by a.k, b.k insert into Out;",
            "of both sides",
        ),
        (
            "from S#window.length(2) as a join R as b on eventTimestamp() > 5 select sum(a.v) as v insert into Out;",
            "looks at a clock",
        ),
        (
            "from S#window.length(2) as a join R as b select str:concat(a.k, UUID()) as v insert into Out;",
            "makes a string",
        ),
        ("from S#window.length(2) as a join R as b select a.v as v insert all events into Out;", "expired events"),
        (
            "from S#window.lengthBatch(2) select v insert into M; from M#window.length(2) as a join R as b select a.v as v insert into Out;",
            "merged in order",
        ),
        (
            "from S#window.lengthBatch(2) select sum(v) as v insert into M; from M#window.length(2) as a join M as b select a.v as v insert into Out;",
            "in chunks of its own",
        ),
        (
            "from S select v insert into M; from M#window.length(2) as a join S as b select a.v as v insert into Out;",
            "both of which are made of 'S'",
        ),
        (_PLAYED + "from S#window.time(1 sec) as a join R as b select sum(a.v) as v insert into Out;", "in playback"),
    ],
)
def test_joins_that_have_no_operator_run_on_rows_with_a_reason(query: str, reason: str) -> None:
    head = _PLAYED if query.startswith(_PLAYED) else ""
    found = islands(plan_app(head + _STREAMS + query.removeprefix(_PLAYED), default_registry()))
    assert not found.columns
    assert any(reason in island.why for island in found.queries.values())
