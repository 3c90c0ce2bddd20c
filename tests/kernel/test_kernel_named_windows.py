"""Named windows and snapshots, as whole apps (semantics/windows.md#named-windows)."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.plan.elements import stateful
from nadi.runtime import Runtime


def _run(text: str, *listened: str) -> tuple[Runtime, list[Any]]:
    runtime = Runtime(text)
    heard: list[Any] = []
    for name in listened:
        runtime.on_stream(name, lambda events: heard.append([e.row for e in events]))
    runtime.start()
    return runtime, heard


WINDOW = """define stream S (k string, v int); define window W (k string, v int) length(2) {output};
from S insert into W; from W select sum(v) as s insert into Out;"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", [1, 3, 5, 7]),
        ("output all events", [1, 3, 5, 7]),
        ("output current events", [1, 3, 6, 10]),
    ],
)
def test_what_a_named_window_lets_out_decides_what_its_readers_subtract(output: str, expected: list[int]) -> None:
    runtime, heard = _run(WINDOW.format(output=output), "Out")
    for v in (1, 2, 3, 4):
        runtime.send("S", [("a", v)])
    assert [row[0] for chunk in heard for row in chunk] == expected


@pytest.mark.parametrize(("output", "found"), [("", [2, 3]), ("output current events", [0, 1, 2, 3])])
def test_a_batch_window_that_lets_out_nothing_expired_shows_joins_all_its_batches(
    output: str, found: list[int]
) -> None:
    text = f"""define stream S (v int); define stream R (v int); define window W (v int) lengthBatch(2) {output};
    from S insert into W; from R join W select W.v as v insert into Out;"""
    runtime, heard = _run(text, "Out")
    for v in range(4):
        runtime.send("S", [(v,)])
    runtime.send("R", [(0,)])
    assert [row[0] for chunk in heard for row in chunk] == found


def test_readers_of_expired_events_only_go_below_zero() -> None:
    text = WINDOW.format(output="output expired events").replace("insert into Out", "insert all events into Out")
    runtime, heard = _run(text, "Out")
    for v in (1, 2, 3, 4):
        runtime.send("S", [("a", v)])
    assert [row[0] for chunk in heard for row in chunk][-1] == -3


def test_a_callback_on_a_named_window_sees_what_leaves_it() -> None:
    runtime = Runtime(WINDOW.format(output=""))
    kinds: list[Any] = []
    runtime.on_stream("W", lambda events: kinds.append([(e.kind, e.row[1]) for e in events]))
    runtime.start()
    for v in (1, 2, 3):
        runtime.send("S", [("a", v)])
    assert kinds == [[(0, 1)], [(0, 2)], [(1, 1), (0, 3)]]


def test_a_window_fed_from_a_partition_is_one_for_all_keys() -> None:
    text = """define stream S (k string, v int); define window W (k string, v int) length(2);
    partition with (k of S) begin from S insert into W; end; from W select count() as n insert into Out;"""
    runtime, heard = _run(text, "Out")
    for k in "abc":
        runtime.send("S", [(k, 1)])
    assert [chunk[0][0] for chunk in heard] == [1, 2, 2]
    found = runtime.query("from W select k")
    assert found is not None
    assert [e.row for e in found] == [("b",), ("c",)]


SNAPSHOT = """define stream S (k string, v int);
from S#window.length(2) select k, sum(v) as s {group} output snapshot every 1 sec insert all events into Out;"""


def test_a_snapshot_of_a_window_shows_its_events_with_the_latest_aggregates() -> None:
    runtime, heard = _run(SNAPSHOT.format(group=""), "Out")
    for row in (("a", 1), ("b", 2), ("a", 3)):
        runtime.send("S", [row])
    runtime.advance(1000)
    assert heard == [[("b", 5), ("a", 5)]]


def test_a_grouped_snapshot_has_one_row_per_key_and_drops_keys_that_left() -> None:
    runtime, heard = _run(SNAPSHOT.format(group="group by k"), "Out")
    for row in (("a", 1), ("b", 2), ("a", 3)):
        runtime.send("S", [row])
    runtime.advance(1000)
    runtime.send("S", [("a", 4)])
    runtime.advance(1000)
    assert heard == [[("b", 2), ("a", 3)], [("a", 7)]]


@pytest.mark.parametrize(("key", "expected"), [("", 11), ("@primaryKey('k')", None), ("@index('k')", None)])
def test_set_sees_the_row_of_a_plain_table_only(key: str, expected: int | None) -> None:
    text = f"""define stream S (k string, v int); define stream U (k string, v int);
    {key} define table T (k string, v int); from S insert into T;
    from U update T set T.v = T.v + v on T.k == k;"""
    runtime, _heard = _run(text)
    runtime.send("S", [("a", 1)])
    runtime.send("U", [("a", 10)])
    found = runtime.query("from T select v")
    assert found is not None
    assert [e.row for e in found] == [(expected,)]


def test_the_kernel_keeps_state_under_the_ids_that_the_plan_tells() -> None:
    text = """define stream S (k string, v int); define table T (k string, v int);
    define window W (k string, v int) time(1 sec); define trigger Tick at every 1 sec;
    define aggregation A from S select k, sum(v) as s group by k aggregate every sec, min;
    @info(name='q') from S#window.time(1 sec) select k, sum(v) as s group by k output last every 1 sec insert into Out;
    @info(name='p') from every e1=S -> not S for 1 sec select e1.k as k insert into Out2;
    @purge(enable='true', interval='1 sec', idle.period='1 sec')
    partition with (k of S) begin from S#window.lengthBatch(2) as a join T as b on a.k == b.k select a.k as k insert into Out3; end;
    from S insert into T; from S insert into W;"""
    runtime = Runtime(text)
    planned = [e.id for e in stateful(runtime.app)]
    kept = [i for i in runtime.kernel.size() if not i.startswith("app/")]
    assert [i for i in kept if not any(i == p or i.startswith(f"{p}/") for p in planned)] == []
    assert [p for p in planned if not any(i == p or i.startswith(f"{p}/") for i in kept)] == []
