"""A generated app in a rows kernel: fed in batches, restarted, and everything that can be seen of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nadi.functions.registry import default_registry
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.kernel.rows.engine import RowsKernel
from nadi.lang import parse_on_demand
from nadi.pipeline.bucketing import make_splitter
from nadi.plan import plan_app
from nadi.plan.nodes import App
from nadi.plan.on_demand import bind_on_demand
from tests.generate.apps import Generated
from tests.generate.inputs import Message

_REGISTRY = default_registry()


class Feeding:
    """One run. `plan` may be shared between runs."""

    def __init__(self, made: Generated, plan: App | None = None) -> None:
        self.made = made
        self.plan = plan or plan_app(made.text, _REGISTRY)
        self.kernel = self._kernel()
        self.kernel.start(0)
        self.fed = 0
        self.rows: dict[str, list[str]] = {}
        self.failures: Counter[str] = Counter()
        self.saved: list[Any] = list(self.kernel.dump())

    def _kernel(self) -> RowsKernel:
        return RowsKernel(self.plan, _REGISTRY, self.made.outputs)

    def feed(self, messages: Sequence[Message], until: int) -> None:
        """One batch; messages are numbered through all batches."""
        out = self.kernel.process(list(self._batches(messages)), until)
        self.fed += len(messages)
        for stream, batch in out.batches.items():
            # as text: NaN is itself
            self.rows.setdefault(stream, []).extend(str(tuple(r.values())) for r in batch.to_pylist())
        self.failures.update(map(str, out.failures))

    def _batches(self, messages: Sequence[Message]) -> Iterable[ArrivalBatch]:
        for ordinal, stream in enumerate(("S", "R")):
            given = [(self.fed + i, m) for i, m in enumerate(messages) if m.stream == stream]
            if given:
                yield from (self._batch(stream, ordinal, position, message) for position, message in given)

    def _batch(self, stream: str, ordinal: int, position: int, message: Message) -> ArrivalBatch:
        attributes = self.plan.streams[stream].schema
        events = pa.RecordBatch.from_pylist(
            [dict(zip(attributes.names, row)) for _ts, row in message.events], schema=arrow_schema(attributes)
        )
        split = make_splitter(self.plan, stream, attributes, 1)(events, np.zeros(events.num_rows, np.int64), 0)
        kept = events.take(pa.array(split.kept))
        n = kept.num_rows
        columns = [
            [message.order] * n,
            [position] * n,
            split.runs,
            [message.events[i][0] for i in split.kept],
            split.groups,
        ]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, ARRIVAL_COLUMNS)]
        schema = pa.schema([*events.schema, *ARRIVAL_COLUMNS])
        return ArrivalBatch(stream, ordinal, 0, pa.RecordBatch.from_arrays([*kept.columns, *arrays], schema=schema))

    def restart(self, how: str) -> None:
        """As `Cut.restart` says."""
        if how == "dump":
            self.saved = list(self.kernel.dump())
        elif how:
            self.saved.append(self.kernel.delta())
        if how in ("dump", "deltas"):
            self.kernel = self._kernel()
            self.kernel.load(self.saved)

    def seen(self) -> dict[str, Any]:
        """Rows with their numbers and chunks, failures in any order, what tables and named windows hold, when the next timer is due."""
        return {
            **self.rows,
            "failures": self.failures,
            "next timer": self.kernel.next_timer(),
            **{f"content of {name}": self._content(name) for name in self.made.stores},
        }

    def _content(self, store: str) -> list[str]:
        asked = bind_on_demand(parse_on_demand(f"from {store} select *"), self.plan, _REGISTRY)
        return [str(event.row) for event in self.kernel.ask(asked) or ()]
