"""The control input: changes from outside take their place among the events, and reads see what the kernel holds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from nadi.functions.registry import default_registry
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.kernel.control import CONTROL, CONTROL_SCHEMA
from nadi.kernel.rows.engine import RowsKernel
from nadi.lang import parse_on_demand
from nadi.plan import bind_on_demand, plan_app
from nadi.plan.nodes import OnDemand, Schema

APP = """{playback}
define stream S (k string, v int);
define table T (k string, name string);
define window W (k string, v int) length(3);
from S join T on S.k == T.k select S.k as k, T.name as name insert into Out;
from S insert into W;
"""


def kernel_of(playback: str = "") -> RowsKernel:
    registry = default_registry()
    kernel = RowsKernel(plan_app(APP.format(playback=playback), registry), registry, ("Out",))
    kernel.start(0)
    return kernel


def arrivals(key: str, schema: Schema, ordinal: int, rows: list[tuple[int, Any, Any]]) -> ArrivalBatch:
    """(time, two values) per message."""
    fields = pa.schema([*arrow_schema(schema), *ARRIVAL_COLUMNS])
    times = [t for t, _, _ in rows]
    zeros = [0] * len(rows)
    columns = [[a for _, a, _ in rows], [b for _, _, b in rows], times, list(range(len(rows))), zeros, times, zeros]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)]
    return ArrivalBatch(key, ordinal, 0, pa.RecordBatch.from_arrays(arrays, schema=fields))


def events(kernel: RowsKernel, *rows: tuple[int, str, int]) -> ArrivalBatch:
    return arrivals("S", kernel.app.streams["S"].schema, 0, list(rows))


def changes(*given: tuple[int, str]) -> ArrivalBatch:
    return arrivals(CONTROL, CONTROL_SCHEMA, 1, [(t, f"r{t}", text) for t, text in given])


def asked(kernel: RowsKernel, text: str) -> OnDemand:
    return bind_on_demand(parse_on_demand(text), kernel.app, kernel.flow.registry, text=text)


INSERT = "select 'a' as k, 'Ana' as name insert into T"
RENAME = "select 'Bea' as name update T set T.name = name on T.k == 'a'"


def test_a_change_takes_its_place_among_the_events_by_its_time():
    kernel = kernel_of()
    made = kernel.process(
        [events(kernel, (10, "a", 1), (30, "a", 2), (50, "a", 3)), changes((20, INSERT), (40, RENAME))], 60
    )
    assert made.failures == ()
    assert made.batches["Out"].column("name").to_pylist() == ["Ana", "Bea"]


def test_a_change_is_part_of_the_state_that_a_delta_carries():
    kernel = kernel_of()
    saved: list[Any] = list(kernel.dump())
    kernel.process([changes((20, INSERT), (21, ""))], 30)
    saved.append(kernel.delta())
    other = kernel_of()
    other.load(saved)
    assert other.find(asked(other, "from T select k, name")) == [("a", "Ana")]


def test_a_change_that_fails_is_noted_with_its_record_and_the_others_are_made():
    kernel = kernel_of()
    made = kernel.process([changes((10, "delete Nothing on k == 'a'"), (20, INSERT))], 30)
    (failure,) = made.failures
    assert (failure.stream, failure.row) == (CONTROL, ("r10", "delete Nothing on k == 'a'"))
    assert kernel.find(asked(kernel, "from T select name")) == [("a", "Ana")]


def test_a_change_does_not_move_the_clock_of_events_in_playback():
    kernel = kernel_of("@app:playback")
    kernel.process([events(kernel, (10, "a", 1)), changes((500, INSERT))], 600)
    assert kernel.flow.now == 10


def test_a_find_selects_over_the_rows_of_all_buckets_together():
    kernel = kernel_of()
    kernel.process([events(kernel, (1, "a", 1), (2, "b", 2), (3, "a", 3))], 5)
    question = asked(kernel, "from W on v > 1 select k, sum(v) as total group by k order by total desc limit 1")
    mine = kernel.find(question)
    assert mine == [("b", 2), ("a", 3)]
    assert kernel.select(question, [*mine, ("b", 5)]) == [("b", 7)]
    assert kernel.select(question, []) == []
    before = kernel.delta()
    assert before
    kernel.find(question)
    assert kernel.delta() == b""  # asking changes nothing
