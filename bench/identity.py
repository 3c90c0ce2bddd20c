"""The pipeline with a kernel that copies: an engine (`NodeOptions.engine`) for apps of one input and one output.

Reading, decoding, encoding, writing and a batch of Spark are the pipeline's own; there is no shuffle, as the app has one bucket, and no state. No app that one
host runs, and that puts out as much, can be faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from nadi.kernel.contract import GROUP, POSITION, TS, Arrivals, Kernel, Outputs, Segment
from nadi.pipeline import engine
from nadi.plan.nodes import App

plan_app = engine.plan_app


class CopyingKernel:
    """Gives what it gets: the rows of the input, numbered by their positions, each a chunk of its own."""

    def __init__(self, output: str) -> None:
        self._output = output

    def start(self, now: int) -> None:
        """Nothing begins."""

    def process(self, arrivals: Arrivals, until: int) -> Outputs:
        if not arrivals:
            return Outputs({})
        made = [_numbered(a.batch) for a in arrivals]
        return Outputs({self._output: made[0] if len(made) == 1 else _joined(made)})

    def next_timer(self) -> int | None:
        return None

    def delta(self) -> bytes:
        return b""

    def dump(self) -> Iterable[Segment]:
        return ()

    def load(self, state: Iterable[Segment | bytes]) -> None:
        """There is no state."""

    def size(self) -> dict[str, int]:
        return {}


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    attributes = [name for name in batch.schema.names if not name.startswith("__")]
    number, ts, group = (batch.column(batch.schema.get_field_index(n)) for n in (POSITION, TS, GROUP))
    columns = [*(batch.column(batch.schema.get_field_index(n)) for n in attributes), number, number, ts, group]
    return pa.RecordBatch.from_arrays(columns, names=[*attributes, "__number", "__chunk", TS, GROUP])


def make_kernel(
    app: App, outputs: tuple[str, ...], bucket: int = 0, properties: Mapping[str, str] | None = None
) -> Kernel:
    """A kernel that copies its one input to the one output."""
    (output,) = outputs
    return CopyingKernel(output)
