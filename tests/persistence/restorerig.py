"""Apps in rows kernels, one per bucket, that are fed, dumped, and go on as another version or in another number of buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from nadi.functions.registry import default_registry
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.payloads import entries_of
from nadi.kernel.segments import Part
from nadi.persistence.columnstate import written_on_columns
from nadi.persistence.restoredstate import HeldState, Restored
from nadi.pipeline.inputs.splitters import make_splitter
from nadi.plan import RestorePlan, fingerprints, plan_app, plan_restore
from nadi.plan.nodes import App

REGISTRY = default_registry()
Message = tuple[str, int, tuple[Any, ...]]
"""(stream, time in ms, row): a message of one event."""


class Node:
    """One app in so many buckets. `rows` are the outputs so far: (stream, group, number, ts, values). Outputs are the streams called Out…."""

    def __init__(self, text: str, buckets: int = 1, outputs: Sequence[str] = (), begin: int | None = 0) -> None:
        self.app: App = plan_app(text, REGISTRY)
        self.outputs = tuple(outputs or (key for key in self.app.streams if key.startswith("Out")))
        self.kernels = [self.kernel(self.app, bucket) for bucket in range(buckets)]
        self.rows: list[tuple[Any, ...]] = []
        self.clock = 0
        self.position = 0
        self._deltas: list[list[Part]] | None = None
        if begin is not None:
            for kernel in self.kernels:
                kernel.start(begin)

    def kernel(self, app: App, bucket: int) -> Any:
        return RowsKernel(app, REGISTRY, self.outputs if app is self.app else (), bucket)

    def feed(self, messages: Sequence[Message], until: int) -> Node:
        """One batch."""
        arrivals: list[list[ArrivalBatch]] = [[] for _ in self.kernels]
        for stream, ts, row in messages:
            schema = self.app.streams[stream].schema
            batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True))], arrow_schema(schema))
            split = make_splitter(self.app, stream, schema, len(self.kernels))(
                batch, np.zeros(1, np.int64), self.position
            )
            for bucket, group in zip(split.buckets.tolist(), split.groups.tolist(), strict=True):
                places = (ts, self.position, 0, ts, group)
                columns = [pa.array([v], f.type) for v, f in zip(places, ARRIVAL_COLUMNS, strict=True)]
                full = pa.RecordBatch.from_arrays(
                    [*batch.columns, *columns], schema=pa.schema([*batch.schema, *ARRIVAL_COLUMNS])
                )
                arrivals[bucket].append(ArrivalBatch(stream, 0, self.position, full))
            self.position += 1
        for kernel, given in zip(self.kernels, arrivals, strict=True):
            out = kernel.process(given, until)
            assert not out.failures
            for stream, made in out.batches.items():
                for row in made.to_pylist():
                    number, group, ts = row.pop("__number"), row.pop("__group"), row.pop("__ts")
                    row.pop("__chunk")
                    self.rows.append((stream, group, number, ts, tuple(row.values())))
        self.clock = until
        if self._deltas is not None:
            for held, kernel in zip(self._deltas, self.kernels, strict=True):
                held.append(kernel.delta())
        return self

    def taken(self) -> list[tuple[Any, ...]]:
        """The rows since this was last asked, in order of stream, group and number."""
        rows, self.rows = sorted(self.rows, key=repr), []
        return sorted(rows, key=lambda r: r[:3])

    def values(self) -> list[tuple[Any, ...]]:
        """Their values only, in the order in which they came."""
        rows, self.rows = self.rows, []
        return [row[4] for row in rows]

    def base(self) -> None:
        """From here on the state is this dump, and a delta per batch."""
        self._deltas = [list(kernel.dump()) for kernel in self.kernels]

    def waiting(self, element: str) -> list[list[int]]:
        """What a timer outside of keys waits for, by bucket."""
        return [_timer(k, f"{element}/timer") for k in self.kernels]

    def state(self) -> HeldState:
        if self._deltas is not None:
            return HeldState(tuple(tuple(p for p in parts if p) for parts in self._deltas))
        return HeldState(tuple(tuple(kernel.dump()) for kernel in self.kernels))

    def plan(self, text: str, to_rows: bool = False) -> RestorePlan:
        columns = written_on_columns(self.state(), self.app)
        return plan_restore(
            self.app, plan_app(text, REGISTRY), REGISTRY, fingerprints(self.app), columns=columns, to_rows=to_rows
        )

    def goes_on_as(
        self, text: str | None = None, buckets: int | None = None, outputs: Sequence[str] = (), to_rows: bool = False
    ) -> Self:
        """Another node with this one's state."""
        made = type(self)(text or self.app.text, buckets or len(self.kernels), outputs, begin=None)
        plan = self.plan(made.app.text, to_rows)
        restored = Restored(self.state(), plan, self.app, made.app, len(made.kernels), self.clock, made.kernel)
        for bucket, kernel in enumerate(made.kernels):
            kernel.load(restored.parts(bucket))
        made.clock, made.position = self.clock, self.position
        return made


def _timer(kernel: RowsKernel, element: str) -> list[int]:
    found = [s for s in kernel.dump() if s.element == element]
    return [due for s in found for _id, key, cells in entries_of(s.payload) if key == "" for due in cells["due"][2]]


def fates(plan: RestorePlan) -> dict[str, str]:
    """Fate by new id, by old id of what is gone."""
    return {f.new or f.old: f.fate for f in plan.fates}
