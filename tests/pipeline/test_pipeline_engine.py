"""The engine that the pipeline runs, without Spark: its kernels run scripts, and one that fails leaves the others alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Outputs
from nadi.pipeline.engine import make_kernel, plan_app

TEXT = """
define stream S (v int);
define function label[javascript] return string {
    if (data[0] == 1) while (true);
    if (data[0] == 2) return '\\ud800';
    return 'n' + data[0];
};
define function twice[python] return long { return data[0] * 2 };
from S select label(v) as a, twice(v) as b insert into Out;
"""


def _batch(*values: int) -> ArrivalBatch:
    app = plan_app(TEXT)
    schema = pa.schema([*arrow_schema(app.streams["S"].schema), *ARRIVAL_COLUMNS])
    places = list(range(len(values)))
    columns: list[list[Any]] = [list(values), places, places, [0] * len(values), places, [0] * len(values)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return ArrivalBatch("S", 0, 0, pa.RecordBatch.from_arrays(arrays, schema=schema))


def _processed(*values: int) -> Outputs:
    kernel = make_kernel(plan_app(TEXT), ("Out",))
    kernel.start(0)
    return kernel.process([_batch(*values)], 100)


def test_scripts_run_in_the_kernels_of_the_pipeline() -> None:
    out = _processed(0, 3)
    assert out.batches["Out"].schema.field("b").type == pa.int64()
    assert [(r["a"], r["b"]) for r in out.batches["Out"].to_pylist()] == [("n0", 0), ("n3", 6)]


def test_a_script_without_end_fails_its_event_only_and_half_a_character_can_be_written() -> None:
    out = _processed(0, 1, 2, 3)
    assert [r["a"] for r in out.batches["Out"].to_pylist()] == ["n0", "?", "n3"]
    assert [f.condition for f in out.failures] == ["SCRIPT_TIME"]


def test_the_same_input_gives_the_same_output_again() -> None:
    assert _processed(0, 1, 3).batches["Out"].equals(_processed(0, 1, 3).batches["Out"])
