"""State of the columns kernel without its kernel: put together from segments and deltas, to be taken apart by query."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from nadi.errors import error
from nadi.kernel.columns.arrivals import Clocks
from nadi.kernel.columns.asrows.whole import as_rows, keys_as_rows, table_as_rows
from nadi.kernel.columns.bounds import values
from nadi.kernel.columns.contract import Stateful
from nadi.kernel.columns.flat import Block, decode, put_back
from nadi.kernel.columns.jit import interpreted
from nadi.kernel.columns.late import without_late
from nadi.kernel.columns.layouts import LAYOUTS, Layouts
from nadi.kernel.columns.operators import operator
from nadi.kernel.columns.outputs import numbers_of
from nadi.kernel.columns.purging import Purging
from nadi.kernel.columns.tables import held_table
from nadi.kernel.contract import Segment
from nadi.kernel.keys import NUMBERS
from nadi.plan.elements import of_query
from nadi.plan.nodes import App, Query
from nadi.plan.owners import keys_id, purged

_CLOCK = "app/clock"


class Folded:
    """The state of some queries, tables and purged keys of an app.

    `numbers` are the next numbers by output and key-group, `clocks` those of the kernel, None where none was told."""

    def __init__(self, app: App, owners: Collection[str]) -> None:
        self._app = app
        self._tables = {table.id: held_table(table, app) for table in app.tables.values() if table.id in owners}
        self._queries: dict[str, Query] = {
            q.id: q for q in app.queries if q.id in owners and any(True for _ in of_query(app, q))
        }
        self._operators: dict[str, Stateful] = {**self._tables}
        self._by_element: dict[str, Stateful] = {**self._tables}
        with interpreted():  # no loop of an operator runs here
            self._keys = {keys_id(p): Purging(p, app, ()) for p in purged(app) if keys_id(p) in owners}
            self._operators.update(self._keys)
            self._by_element.update(self._keys)
            for query in self._queries.values():
                made = operator(query, app, {held.table.name: held for held in self._tables.values()})
                if isinstance(made, Stateful):
                    self._operators[query.id] = made
                    self._by_element.update(dict.fromkeys(made.elements, made))
        self._layouts = Layouts(self._queries.values(), app, [held.table.name for held in self._tables.values()])
        self.numbers: dict[str, dict[int, int]] = {}
        self.clocks: Clocks | None = None

    def apply(self, payload: bytes) -> None:
        """A segment or delta. Errors: STATE_NOT_READABLE, for an element of something else than these queries, too."""
        for block in decode(payload) if payload else ():
            put_back(self.put, block)

    def put(self, block: Block) -> None:
        """One block."""
        if block.element == LAYOUTS:
            self._layouts.apply(block)
        elif block.element == _CLOCK:
            self.clocks = Clocks(*values(block.arrays, "now", np.int64, 2).tolist())
        elif (found := self._by_element.get(block.element)) is not None:
            found.apply(block)
        elif block.element.endswith(NUMBERS):
            groups, following = numbers_of(block)
            self.numbers.setdefault(block.element, {}).update(zip(groups.tolist(), following.tolist(), strict=True))
        else:
            reason = f"the columns kernel wrote '{block.element}', and columns do not have it any more"
            raise error("STATE_NOT_READABLE", reason=reason)

    def blocks(self, query: str, settled: bool = False) -> Iterable[Block]:
        """What a query or table holds (or the keys are), in blocks of one key-group each; `settled` without the events of a time window that are late."""
        found = self._operators.get(query)
        if found is None:
            return ()
        if settled and self.clocks is not None and query in self._queries:
            return without_late(self._queries[query], self._app, found.contents(), self.clocks.now)
        return found.contents()

    def as_rows(self, query: str, settled: bool = False) -> Iterator[Segment]:
        """The same as segments of the rows kernel."""
        if query in self._tables:
            yield from table_as_rows(self._tables[query].table, self.blocks(query))
        elif self.clocks is None:
            return
        elif query in self._keys:
            yield from keys_as_rows(query, self._keys[query].interval, self.blocks(query), self.clocks)
        elif query in self._operators:
            yield from as_rows(self._queries[query], self._app, self.blocks(query, settled), self.clocks)

    @property
    def held(self) -> tuple[str, ...]:
        """The queries that keep something, the tables, and keys that are purged."""
        return tuple(self._operators)
