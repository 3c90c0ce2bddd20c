"""Files of typed rows (parquet, Arrow IPC): how many there are, and rows out of the middle. Their blocks are row groups and record batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

PIECE = 50_000
BROKEN = (OSError, ValueError, EOFError, pa.ArrowException)


class TypedFile:
    """An open parquet or Arrow file."""

    def __init__(self, path: Path, kind: str) -> None:
        self._parquet = pq.ParquetFile(path) if kind == "parquet" else None
        self._arrow = pa.ipc.open_file(pa.memory_map(str(path))) if kind == "arrow" else None

    def bounds(self) -> npt.NDArray[np.int64]:
        """The first row of every block, and the number of rows at the end."""
        if self._parquet is not None:
            meta = self._parquet.metadata
            sizes = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        else:
            assert self._arrow is not None
            sizes = [self._arrow.get_batch(i).num_rows for i in range(self._arrow.num_record_batches)]
        return np.cumsum([0, *sizes]).astype(np.int64)

    def block(self, number: int) -> pa.Table:
        if self._parquet is not None:
            return self._parquet.read_row_group(number)
        assert self._arrow is not None
        return pa.Table.from_batches([self._arrow.get_batch(number)])

    def close(self) -> None:
        if self._parquet is not None:
            self._parquet.close()


def typed_rows(
    file: TypedFile, bounds: npt.NDArray[np.int64], start: int, end: int
) -> Iterator[tuple[int, pa.RecordBatch | str]]:
    """(first row, rows) of [start, end) in pieces; a block that cannot be read is (its first row, why), if that row is in the range."""
    first = int(np.searchsorted(bounds, start, side="right")) - 1
    for number in range(first, len(bounds) - 1):
        low, high = int(bounds[number]), int(bounds[number + 1])
        if low >= end:
            return
        if low == high:
            continue
        try:
            table = file.block(number)
            table.validate(
                full=True
            )  # offsets and texts are as the file's maker has them: to read wrong ones later would end the process
        except BROKEN as e:
            if start <= low:
                yield low, f"rows {low} to {high - 1} of the file cannot be read: {e}"
            continue
        at, stop = max(start, low), min(end, high)
        while at < stop:
            many = min(PIECE, stop - at)
            rows = table.slice(at - low, many).combine_chunks()
            yield at, pa.RecordBatch.from_arrays([_one(c) for c in rows.columns], names=rows.column_names)
            at += many


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
