"""Compiling the loops for JSON: events of all types are written and read once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nadi.io.mappers.columns import arrow_schema
from nadi.io.mappers.json_block import BlockReader
from nadi.io.mappers.json_lines import BlockWriter
from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema

_VALUES = {Type.STRING: "a", Type.INT: 1, Type.LONG: 2, Type.FLOAT: 1.5, Type.DOUBLE: 2.5, Type.BOOL: True}


def warm() -> None:
    """Compile what `BlockReader` and `BlockWriter` call, or take it from the cache."""
    schema = Schema(tuple(Column(kind.value, kind) for kind in _VALUES))
    rows = [{kind.value: value for kind, value in _VALUES.items()}] * 2
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(schema))
    written = BlockWriter(schema, b"", b"").write(batch, np.arange(len(rows)))
    read = BlockReader(schema, strict=True).read(written)
    assert read is not None
    assert read.batch.equals(batch)
