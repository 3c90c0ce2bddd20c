"""A generated app in a rows kernel, or in one per bucket: fed in batches, restarted, and everything that can be seen of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from nadi.functions import Registry, StoreKind, StoreTable
from nadi.functions.registry import default_registry
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, GROUP, ArrivalBatch
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.memorystore import MemoryStore
from nadi.lang import parse_on_demand
from nadi.pipeline.inputs.splitters import Splitter, make_splitter
from nadi.plan import plan_app
from nadi.plan.nodes import App, Script
from nadi.plan.on_demand import bind_on_demand
from nadi.runtime.sandbox import Limits, Sandbox
from tests.generate.apps import STORE, Generated
from tests.generate.inputs import Message


def _registry(databases: dict[str, MemoryStore]) -> Registry:
    """With a type of store whose tables outlive their kernel."""

    def make(table: StoreTable) -> MemoryStore:
        return databases.setdefault(table.name, MemoryStore(table))

    made = default_registry().copy()
    made.add(StoreKind(STORE, make))
    return made


_REGISTRY = _registry({})


@cache
def _sandbox(scripts: tuple[tuple[str, Script], ...]) -> Sandbox:
    """One process for all kernels of these scripts: a call leaves nothing behind. Time is no part of what is tested."""
    return Sandbox(dict(scripts), Limits(seconds=20))


def _run_scripts(scripts: Mapping[str, Script]) -> Sandbox:
    return _sandbox(tuple(sorted(scripts.items())))


def planned(made: Generated) -> App:
    """The plan of a generated app."""
    return plan_app(made.text, _REGISTRY)


class Feeding:
    """One run. `plan` may be shared between runs; with `buckets` each key-group has its kernel. `streams` are those that messages come for."""

    streams: Sequence[str] = ("S", "R")

    def __init__(self, made: Generated, plan: App | None = None, buckets: int = 1) -> None:
        self.made = made
        self.plan = plan or planned(made)
        self.registry = _registry({})
        self.kernels = [self._kernel(bucket) for bucket in range(buckets)]
        for kernel in self.kernels:
            kernel.start(0)
        self.fed = 0
        self._splitters: dict[tuple[str, int], Splitter] = {}  # by stream and number of buckets
        self.rows: dict[str, list[str]] = {}
        self.by_group: dict[tuple[str, int], list[str]] = {}
        self.failures: Counter[str] = Counter()
        self.told: list[tuple[str, str]] = []  # of failures: condition and message
        self.saved: list[list[Any]] = [list(kernel.dump()) for kernel in self.kernels]

    def _kernel(self, bucket: int) -> RowsKernel:
        return RowsKernel(self.plan, self.registry, self.made.outputs, bucket=bucket, scripts=_run_scripts)

    def feed(self, messages: Sequence[Message], until: int) -> None:
        """One batch; messages are numbered through all batches."""
        for bucket, kernel in enumerate(self.kernels):
            out = kernel.process(list(self._batches(messages, bucket)), until)
            for stream, batch in out.batches.items():
                orders = out.orders[stream].tolist()
                assert len(orders) == batch.num_rows
                assert orders == sorted(orders)
                if self.plan.playback is not None:
                    orders = [0] * len(orders)  # on columns as of the end of the batch
                for order, row in zip(orders, batch.to_pylist(), strict=True):
                    text = str((*row.values(), order))  # as text: NaN is itself
                    self.rows.setdefault(stream, []).append(text)
                    self.by_group.setdefault((stream, row[GROUP]), []).append(text)
            self.failures.update(map(str, out.failures))
            self.told += [(failure.condition, failure.message) for failure in out.failures]
        self.fed += len(messages)

    def _batches(self, messages: Sequence[Message], bucket: int) -> Iterable[ArrivalBatch]:
        for ordinal, stream in enumerate(self.streams):
            given = [(self.fed + i, m) for i, m in enumerate(messages) if m.stream == stream]
            yield from (self._batch(stream, ordinal, position, message, bucket) for position, message in given)

    def _batch(self, stream: str, ordinal: int, position: int, message: Message, bucket: int) -> ArrivalBatch:
        attributes = self.plan.streams[stream].schema
        events = pa.RecordBatch.from_pylist(
            [dict(zip(attributes.names, row)) for _ts, row in message.events], schema=arrow_schema(attributes)
        )
        where = stream, len(self.kernels)
        if where not in self._splitters:
            self._splitters[where] = make_splitter(self.plan, stream, attributes, len(self.kernels))
        split = self._splitters[where](events, np.zeros(events.num_rows, np.int64), 0)
        mine = np.flatnonzero(split.buckets == bucket)
        chosen = split.kept[mine]
        kept = events.take(pa.array(chosen))
        n = kept.num_rows
        columns = [
            [message.order] * n,
            [position] * n,
            split.runs[mine],
            [message.events[i][0] for i in chosen],
            split.groups[mine],
        ]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, ARRIVAL_COLUMNS)]
        schema = pa.schema([*events.schema, *ARRIVAL_COLUMNS])
        return ArrivalBatch(stream, ordinal, 0, pa.RecordBatch.from_arrays([*kept.columns, *arrays], schema=schema))

    def restart(self, how: str) -> None:
        """As `Cut.restart` says."""
        for bucket, kernel in enumerate(self.kernels):
            if how == "dump":
                self.saved[bucket] = list(kernel.dump())
            elif how:
                self.saved[bucket].append(kernel.delta())
            if how in ("dump", "deltas"):
                self.kernels[bucket] = self._kernel(bucket)
                self.kernels[bucket].load(self.saved[bucket])

    def next_timer(self) -> int | None:
        """When the next timer of any kernel is due."""
        return min((due for kernel in self.kernels if (due := kernel.next_timer()) is not None), default=None)

    def seen(self) -> dict[str, Any]:
        """Rows with their numbers and chunks, failures in any order, what tables and named windows hold, when the next timer is due."""
        return {
            **self.rows,
            "failures": self.failures,
            "next timer": self.next_timer(),
            **{f"content of {name}": self._content(name) for name in self.made.stores},
        }

    def _content(self, store: str) -> list[str]:
        asked = bind_on_demand(parse_on_demand(f"from {store} select *"), self.plan, self.registry)
        return [str(event.row) for event in self.kernels[0].ask(asked) or ()]
