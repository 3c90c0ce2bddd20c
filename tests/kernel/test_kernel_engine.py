"""The rows kernel as the pipeline drives it: Arrow in, numbered rows out, state that goes away and comes back."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, CHUNK, GROUP, NUMBER, TS, ArrivalBatch, Outputs
from nadi.kernel.keys import key_group
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.events import CURRENT, Event
from nadi.plan import plan_app

SIMPLE = "define stream S (k string, v int); from S[v > 0] select k, v * 2 as w insert into Out;"
KEYED = """
define stream S (k string, v int);
partition with (k of S) begin
  from S select k, sum(v) as total insert into #Sums;
  from #Sums select k, total insert into Out;
end;
"""


def _kernel(text: str, *outputs: str) -> RowsKernel:
    registry = default_registry()
    return RowsKernel(plan_app(text, registry), registry, outputs or ("Out",))


def _arrivals(
    kernel: RowsKernel, stream: str, rows: list[tuple[Any, ...]], start: int = 0, position: int = 0, size: int = 1
) -> ArrivalBatch:
    """Rows that arrive one ms after the other, `size` of them per message."""
    schema = pa.schema([*arrow_schema(kernel.app.streams[stream].schema), *ARRIVAL_COLUMNS])
    width = len(schema) - len(ARRIVAL_COLUMNS)
    columns: list[list[Any]] = [list(c) for c in zip(*rows)]
    places = [i // size for i in range(len(rows))]
    times = [start + p for p in places]
    groups = [key_group(str(r[0])) for r in rows]
    columns = [*columns[:width], times, [position + p for p in places], [0] * len(rows), times, groups]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema)]
    return ArrivalBatch(stream, 0, 0, pa.RecordBatch.from_arrays(arrays, schema=schema))


def _rows(outputs: Outputs, stream: str = "Out") -> list[tuple[Any, ...]]:
    batch = outputs.batches.get(stream)
    return [] if batch is None else [tuple(r.values()) for r in batch.to_pylist()]


def test_outputs_are_typed_and_numbered() -> None:
    kernel = _kernel(SIMPLE)
    kernel.start(0)
    out = kernel.process([_arrivals(kernel, "S", [("a", 1), ("b", -1), ("c", 3)], start=10)], 100)
    assert out.batches["Out"].schema.names == ["k", "w", NUMBER, CHUNK, TS, GROUP]
    assert out.batches["Out"].schema.field("w").type == pa.int32()
    assert _rows(out) == [("a", 2, 0, 0, 10, 0), ("c", 6, 1, 1, 12, 0)]
    assert out.counts == {"S": 3, "Out": 2}
    assert kernel.flow.now == 100
    again = kernel.process([_arrivals(kernel, "S", [("d", 4)], start=200)], 200)
    assert _rows(again) == [("d", 8, 2, 2, 200, 0)]


def test_rows_of_one_chunk_share_the_number_of_its_first_row() -> None:
    kernel = _kernel(SIMPLE)
    kernel.start(0)
    out = kernel.process([_arrivals(kernel, "S", [("a", 1), ("b", 1), ("c", 1)], size=2)], 10)
    assert [row[2:4] for row in _rows(out)] == [(0, 0), (1, 0), (2, 2)]


def test_arrivals_of_several_partitions_come_in_order_of_time() -> None:
    kernel = _kernel(SIMPLE)
    kernel.start(0)
    late = _arrivals(kernel, "S", [("late", 1)], start=9)
    early = _arrivals(kernel, "S", [("early", 1), ("last", 1)], start=8)
    late = ArrivalBatch("S", 0, 1, late.batch)
    out = kernel.process([late, early], 10)
    assert [row[0] for row in _rows(out)] == ["early", "last", "late"]


def test_an_app_sharded_by_key_numbers_each_key_group_by_itself() -> None:
    kernel = _kernel(KEYED)
    assert kernel.app.sharding.kind == "key"
    kernel.start(0)
    out = kernel.process([_arrivals(kernel, "S", [("a", 1), ("b", 2), ("a", 3)])], 10)
    a, b = key_group("a"), key_group("b")
    assert [(r[0], r[1], r[2], r[5]) for r in _rows(out)] == [("a", 1, 0, a), ("b", 2, 0, b), ("a", 4, 1, a)]


@pytest.mark.parametrize("text", [SIMPLE, KEYED])
def test_a_kernel_that_was_loaded_goes_on_where_the_other_one_stopped(text: str) -> None:
    rows = [(k, i) for i, k in enumerate("abacabadab")]
    whole = _kernel(text)
    whole.start(0)
    expected = _rows(whole.process([_arrivals(whole, "S", rows)], 1000))
    got: list[tuple[Any, ...]] = []
    kernel = _kernel(text)
    kernel.start(0)
    saved: list[Any] = list(kernel.dump())
    for i, row in enumerate(rows):
        got += _rows(kernel.process([_arrivals(kernel, "S", [row], start=i, position=i)], i))
        saved.append(kernel.delta())
        kernel = _kernel(text)
        kernel.load(saved)
        assert kernel.flow.now == i
        if i % 3 == 2:
            saved = list(kernel.dump())
    assert got == expected


def test_nothing_new_makes_an_empty_delta() -> None:
    kernel = _kernel(KEYED)
    kernel.start(0)
    kernel.process([_arrivals(kernel, "S", [("a", 1)])], 5)
    assert kernel.delta() != b""
    kernel.process([], 5)
    assert kernel.delta() == b""


def test_a_value_that_its_column_cannot_hold_fails_alone() -> None:
    text = "define stream S (k string, v int); from S select k, cast(k, 'int') as n insert into Out;"
    kernel = _kernel(text)
    kernel.start(0)
    out = kernel.process([_arrivals(kernel, "S", [("a", 1)])], 10)
    assert _rows(out) == []
    assert [f.condition for f in out.failures] == ["OUTPUT_VALUE"]


def test_an_output_must_be_a_stream() -> None:
    with pytest.raises(NadiError) as caught:
        _kernel(SIMPLE, "Nowhere")
    assert caught.value.condition == "STREAM_NOT_DEFINED"


def test_a_trigger_fires_at_its_due_times_and_is_known_in_advance() -> None:
    kernel = _kernel("define trigger T at every 5 sec; from T select triggered_time insert into Out;")
    kernel.start(1000)
    assert kernel.next_timer() == 6000
    assert [r[0] for r in _rows(kernel.process([], 17_000))] == [6000, 11_000, 16_000]
    saved = list(kernel.dump())
    other = _kernel("define trigger T at every 5 sec; from T select triggered_time insert into Out;")
    other.load(saved)
    assert other.next_timer() == 21_000


def test_a_named_window_as_output_gives_what_enters_it() -> None:
    text = "define stream S (k string, v int); define window W (k string, v int) length(1); from S insert into W;"
    kernel = _kernel(text, "W")
    kernel.start(0)
    out = kernel.process([_arrivals(kernel, "S", [("a", 1), ("b", 2)])], 10)
    assert [row[:4] for row in _rows(out, "W")] == [("a", 1, 0, 0), ("b", 2, 1, 1)]


def test_objects_travel_as_json() -> None:
    text = """define stream S (k string, v int); define stream O (o object);
    from every e1=S<2:2> -> e2=S select e1.v as vs insert into Out; from O select o as vs insert into Out;"""
    kernel = _kernel(text)
    kernel.start(0)
    out = kernel.process([_arrivals(kernel, "S", [("a", 1), ("a", 2), ("a", 3)])], 10)
    assert [row[0] for row in _rows(out)] == ["[1,2]"]
    out = kernel.process([_arrivals(kernel, "O", [('{"x": [1, null]}',), ("no json",), (None,)], start=20)], 30)
    assert [row[0] for row in _rows(out)] == ['{"x":[1,null]}', '"no json"', None]


def test_an_event_that_failed_outside_comes_back_as_an_arrival_of_the_fault_stream() -> None:
    """What a sink could not write is a record of an input again, so that a replay gives the same."""
    text = "@OnError(action='STREAM') define stream S (k string); from !S select k, convert(_error, 'string') as why insert into Out;"
    kernel = _kernel(text)
    kernel.start(0)
    out = kernel.process([_arrivals(kernel, "!S", [("a", "refused")])], 10)
    assert [row[:2] for row in _rows(out)] == [("a", "refused")]


def test_events_that_failed_outside_go_where_the_stream_says_or_are_noted() -> None:
    text = "@OnError(action='STREAM') define stream S (k string); from !S select k insert into Out;"
    kernel = _kernel(text)
    kernel.start(0)
    for routes in (True, False):
        kernel.fail("S", [Event(CURRENT, 5, ("a",))], OSError("away"), routes)
    out = kernel.process([], 10)
    assert [row[:1] for row in _rows(out)] == [("a",)]
    assert [(f.stream, f.row, f.message, f.routed) for f in out.failures] == [
        ("S", ("a",), "OSError: away", True),
        ("S", ("a",), "OSError: away", False),
    ]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 101 + "]" * 101, "{"])
def test_an_object_that_is_nested_too_deep_or_no_json_is_its_text(text: str) -> None:
    """The kernel would have failed at it, and again in each batch from then on."""
    kernel = _kernel("define stream S (k string, v object); from S select k, v insert into Out;")
    kernel.start(0)
    out = kernel.process([_arrivals(kernel, "S", [("a", text), ("b", "[1]")])], 10)
    assert [row[:2] for row in _rows(out)] == [("a", msgspec.json.encode(text).decode()), ("b", "[1]")]
