"""Batches as they come: what lies in memory in other ways than generated ones is read, picked and put out as on rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nadi.functions.registry import default_registry
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.kernel.columns.jit import interpreted
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.kernel.rows.engine import RowsKernel
from nadi.plan import plan_app

START = 1_700_000_000_000
SOME = (
    "define stream In (n int, k string, name string, v double, f float, b bool);"
    "from In[n % 3 != 0] select k, name, v * 2.0 as twice, b, f, n, 'same' as c insert into Out;"
)
ALL = "define stream In (n int, k string, name string, v double, f float, b bool);from In select name, b, v insert into Out;"
LONG = "a text that is longer than most, so that there is not room enough for many of it "
COUNT = 60


def _batch(chunk: int, late: int, nulls: bool) -> pa.RecordBatch:
    """So many events to a chunk; every so many-th order time goes back; numbers, texts and bools that may be null."""
    at = np.arange(COUNT)
    holes = (at % 7 == 3) if nulls else np.zeros(COUNT, bool)
    columns = [
        pa.array(at.astype(np.int32)),
        pa.array([f"k{n % 4}" for n in at]),
        pa.array([None if gone else LONG * (n % 5) for n, gone in zip(at, holes, strict=True)]),
        pa.array(at * 0.25, mask=holes),
        pa.array(at.astype(np.float32)),
        pa.array(at % 2 == 0, mask=holes),
    ]
    order = START + at // chunk - (5 * (at // chunk % late == 1) if late else 0)
    marks = (order, at // chunk, np.zeros(COUNT, np.int32), START + at, np.zeros(COUNT, np.int16))
    names = ["n", "k", "name", "v", "f", "b"]
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return pa.RecordBatch.from_arrays([*columns, *map(pa.array, marks)], schema=pa.schema([*fields, *ARRIVAL_COLUMNS]))


def _shown(kernel: Any, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    kernel.start(0)
    made = (kernel.process([ArrivalBatch("In", 0, 0, batch)], START + 1_000 * n) for n, batch in enumerate(batches, 1))
    return [found for outputs in made for found in outputs.batches.values()]


@pytest.mark.parametrize("text", [SOME, ALL], ids=["some", "all"])
@pytest.mark.parametrize(("chunk", "late"), [(1, 0), (1, 4), (3, 0)], ids=["plain", "order goes back", "in chunks"])
@pytest.mark.parametrize("nulls", [False, True], ids=["no nulls", "nulls"])
def test_batches_give_what_rows_give_however_they_lie(text: str, chunk: int, late: int, nulls: bool) -> None:
    app, registry = plan_app(text, default_registry()), default_registry()
    whole = _batch(chunk, late, nulls)
    batches = [whole, whole.slice(9, 21), whole.slice(50, 10), whole.slice(3, 1)]
    with interpreted():
        found = _shown(ColumnsKernel(app, registry, ("Out",)), batches)
    expected = _shown(RowsKernel(app, registry, ("Out",)), batches)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one.validate(full=True)
        assert one == other


def test_rows_that_go_out_outlive_the_batch_that_they_came_with() -> None:
    with interpreted():
        kernel = ColumnsKernel(plan_app(SOME, default_registry()), default_registry(), ("Out",))
    kernel.start(0)
    outputs = [kernel.process([ArrivalBatch("In", 0, 0, _batch(1, 0, False))], START + n) for n in range(50)]
    names = [found.batches["Out"].column("name") for found in outputs]
    assert names[0].to_pylist() == [LONG * (n % 5) for n in range(COUNT) if n % 3]
    assert all(one == names[0] for one in names)
