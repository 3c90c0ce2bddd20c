"""The operator of joins of two streams: `from A#window.time(1 sec) as a join B#window.length(9) as b on a.k == b.k and a.v > b.v`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.joins.held import Held
from nadi.kernel.columns.joins.layout import lay_out
from nadi.kernel.columns.joins.reading import Reading
from nadi.kernel.columns.joins.rows import Rows
from nadi.kernel.columns.joins.text import MADE, SERIAL, JoinText
from nadi.kernel.columns.joins.totals import Totals
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.stretch import Longs, Stretch
from nadi.plan.nodes import App, Query

_LEAST = 256  # output rows that there is room for at first
_SWEEP = 1024  # texts from which on one looks for such that nothing refers to


class Join:
    """A query over two streams, or one that stands on both sides.

    `staged`: some of its events come when their batch ends (`batched.py`); the origin of each is then with which arrival it comes, or between which ones.

    Has no timers: an event that is late leaves before anybody looks. What a timer lets out on rows joins, too, but only current events come out.
    """

    def __init__(self, query: Query, app: App, staged: bool = False) -> None:
        layout = lay_out(query, app)
        sharded = app.sharding.kind == "key"
        self._names = layout.sources.names
        self._table = KeyTable()
        selection = query.selection
        ordered = bool(selection.order_by or selection.limit is not None or selection.offset)
        self._text = JoinText(layout, sharded, ordered, staged)
        self._staged = staged
        self._held = tuple(Held(s, self._table, sharded) for s in layout.sides if s.held)
        named = layout.partitioned or layout.grouped
        totalling = self._text.totalling
        self._totals: tuple[Totals, ...] = ()
        if totalling is not None:
            self._totals = (Totals(query.selector_id, totalling, self._table, named, sharded),)
        self._by_element: dict[str, Held | Totals] = {held.element: held for held in self._held}
        if totalling is not None and totalling.holds:
            self._by_element |= {totals.element: totals for totals in self._totals}
        self._reading = Reading(self._text, layout, self._table)
        self._chunks = self._serial = 0  # how many chunks there were, how many events that may bring rows
        self._fired = layout.partitioned and not layout.aggregates
        self._clock: int | None = None  # at the end of the last batch
        self._ratio, self._made = 1.0, 0  # output rows for an event, and in all, of the last batch
        self._limit = _SWEEP
        self.elements = tuple(self._by_element)

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch."""
        own = self._reading.read(given)
        events = sum(map(len, given.values()))
        for totals in self._totals:
            own |= totals.own | totals.bags.own(events)
            if totals.prefixed:
                totals.note(self._reading.prefixes(given, own))
        for held in self._held:
            if self._fired and self._clock is not None:
                held.fire(self._clock)
            held.ready(events)
            own |= held.own
        room = min(int(events * self._ratio * 1.1), 2 * self._made + events) + _LEAST
        rows = Rows(self._text.picked, self._text.made, room)
        stop = np.zeros(len(self._text.stop), np.int64)
        stop[SERIAL] = self._serial
        own |= {"base": self._chunks, "stop": stop}
        ends = [len(given[name]) if name in given else 0 for name in self._names]
        while True:
            own |= rows.arrays
            self._text.call(*(own[name] for name in self._text.parameters))
            made = int(stop[MADE])
            if stop[: len(ends)].tolist() == ends:
                break
            if made == rows.room:
                rows.grow(made)
            for totals in self._totals:
                own |= totals.bags.own(rows.room)
        self._ratio, self._made = made / events, made
        self._serial, self._clock = int(stop[SERIAL]), until
        self._chunks += 1 + max(int(_arrivals(stretch, self._staged)[-1]) for stretch in given.values())
        result = rows.stretch(made, self._table) if made else None
        self._sweep()
        return result

    def _sweep(self) -> None:
        """Forget texts that nothing refers to, if there are many."""
        if self._table.count < self._limit:
            return
        used = np.zeros(self._table.room, np.bool_)
        for part in self._by_element.values():
            part.mark(used)
        ids = self._table.held()
        gone = ids[~used[ids]]
        self._table.release(gone)
        for totals in self._totals:
            totals.forget(gone)
        self._limit = max(_SWEEP, 2 * self._table.count, sum(held.size() for held in self._held) // 4)

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What left and what came, of both sides, and the groups that were changed."""
        for part in self._by_element.values():
            yield from part.changes()

    def contents(self) -> Iterator[Block]:
        """All that is held."""
        for part in self._by_element.values():
            yield from part.contents()

    def apply(self, block: Block) -> None:
        """Put back events of a side, or groups."""
        self._by_element[block.element].apply(block)

    def clear(self) -> None:
        """Forget all."""
        self._clock = None
        self._table.clear()
        for held in self._held:
            held.clear()
        for totals in self._totals:
            totals.clear()

    def size(self) -> dict[str, int]:
        """Events held, by window, and groups that hold anything."""
        return {element: part.size() for element, part in self._by_element.items()}


def _arrivals(stretch: Stretch, staged: bool) -> Longs:
    """The arrivals that events come with."""
    if not staged:
        return stretch.chunk
    assert stretch.origin is not None
    return stretch.origin
