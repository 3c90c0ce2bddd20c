"""Queries without state that may fail on an event: what happens then is told by rows.

Columns take a batch as if nothing failed. Where a function does fail, whoever would look at its value, the chunk of that event goes to rows alone, which may
find that nobody looks, or note the failure; the others go through columns again. So a batch with such an event costs twice, and what rows take for that chunk.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from nadi.kernel.arrow import ARROW_TYPES
from nadi.kernel.columns.around import Around
from nadi.kernel.columns.contract import Operator
from nadi.kernel.columns.stretch import Column, Longs, Stretch, in_order
from nadi.kernel.contract import Failure
from nadi.kernel.rows.events import CURRENT, Chunk, event_of
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.junctions import said
from nadi.kernel.rows.selector import Selector
from nadi.kernel.rows.steps import make_steps
from nadi.plan.columns.outsideloops import Ahead
from nadi.plan.nodes import App, Query, SingleInput
from nadi.plan.walk import read


class Asking(Around):
    """An operator for a query that may fail."""

    def __init__(self, made: Ahead, query: Query, app: App, inner: Operator) -> None:
        super().__init__(made, app, inner)
        self.source = read(query)[0]
        self._query, self._app = query, app
        self._rows: Rows | None = None
        self._failures: list[tuple[int, Failure]] = []
        self._failed: list[int] = []

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch."""
        made, suspect = self._tried(given, until)
        if suspect is None:
            return made
        (stretch,) = given.values()
        apart = np.zeros(len(stretch), np.bool_)
        while suspect is not None:  # behind the filters others may fail
            apart |= np.isin(stretch.chunk, suspect)
            rest = np.flatnonzero(~apart)
            made, suspect = self._tried({self.source: stretch.take(rest)}, until) if len(rest) else (None, None)
        return _together(made, self._asked(stretch.take(np.flatnonzero(apart))))

    def take_failures(self) -> tuple[list[tuple[int, Failure]], list[int]]:
        """What failed since the last call, with the chunk of the input; and the chunks of the stream that is read in which it did."""
        taken = self._failures, self._failed
        self._failures, self._failed = [], []
        return taken

    def _tried(self, given: Mapping[str, Stretch], until: int) -> tuple[Stretch | None, Longs | None]:
        """The rows of a batch, and the chunks in which a function failed, None where there are none: there are no rows else."""
        wider = self._wider(given)
        for key, computing in self._before.items():
            if key in given and computing.failed is not None:
                return None, given[key].chunk[computing.failed]
        made = self.inner.process(wider, until)
        if made is None or self._behind is None:
            return made, None
        rows = self._output(made)
        return rows, None if self._behind.failed is None else made.chunk[self._behind.failed]

    def _asked(self, given: Stretch) -> Stretch | None:
        """What rows make of some chunks."""
        if self._rows is None:
            self._rows = Rows(self._query, self._app)
        made, source = self._rows, list[int]()
        events: Chunk = []
        for start, stop in _chunks(given.chunk):
            part = given.part(start, stop)
            rows, failures = made.process(part)
            if failures:
                number = int((given.chunk if given.origin is None else given.origin)[start])
                self._failures += ((number, failure) for failure in failures)
                self._failed.append(int(given.chunk[start]))
            source += [start] * len(rows)
            events += rows
        if not events:
            return None
        taken = given.take(np.array(source, np.int64))
        kinds, values = self._query.selection.schema.types, zip(*(event.row for event in events), strict=True)
        columns = (Column(pa.array(v, ARROW_TYPES[k])) for v, k in zip(values, kinds, strict=True))
        ts = np.array([event.ts for event in events], np.int64)
        return Stretch(tuple(columns), ts, taken.now, taken.chunk, taken.group, taken.origin)


class Rows:
    """A query without state on rows."""

    def __init__(self, query: Query, app: App) -> None:
        source = query.input
        assert isinstance(source, SingleInput)  # as the plan says
        self._stream = source.source
        self._flow = Flow(lambda key: 0, app.playback is not None)
        self._made: Chunk = []
        selector = Selector(query, self._flow, {}, self._made.extend)
        self._steps = make_steps(source.steps, source.schema, self._flow, {}, self._flow.registry, selector.process)

    def process(self, given: Stretch) -> tuple[Chunk, list[Failure]]:
        """One chunk: its output rows, and its events if one of them failed."""
        self._flow.now = int(given.now[0])
        self._made.clear()
        rows = zip(*(column.array().to_pylist() for column in given.columns), strict=True)
        events = [event_of((CURRENT, ts, row)) for ts, row in zip(given.ts.tolist(), rows, strict=True)]
        try:
            self._steps.process(events)
        except MemoryError:
            raise
        except Exception as problem:
            condition, message = said(problem)
            group = 0 if given.group is None else int(given.group[0])
            return [], [Failure(self._stream, e.ts, e.row, condition, message, False, group) for e in events]
        return self._made.copy(), []


def _chunks(chunk: Longs) -> list[tuple[int, int]]:
    """Where each chunk begins and ends."""
    ends = [*(np.flatnonzero(np.diff(chunk)) + 1).tolist(), len(chunk)]
    return list(zip([0, *ends], ends))


def _together(one: Stretch | None, other: Stretch | None) -> Stretch | None:
    """The rows of two stretches in the order of their chunks."""
    if one is None or other is None:
        return one if other is None else other
    return in_order((one, other), np.argsort(np.concatenate([one.chunk, other.chunk]), kind="stable"))
