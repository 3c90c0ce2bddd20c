"""The operator of joins of two streams: `from A#window.time(1 sec) as a join B#window.length(9) as b on a.k == b.k and a.v > b.v`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.joins.held import Held
from nadi.kernel.columns.joins.layout import lay_out
from nadi.kernel.columns.joins.text import JoinText
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.patterns.picking import Picks
from nadi.kernel.columns.patterns.reading import Reading
from nadi.kernel.columns.stretch import Array, Longs, Stretch
from nadi.plan.nodes import App, Query

_LEAST = 256  # output rows that there is room for at first
_SWEEP = 1024  # texts from which on one looks for such that nothing refers to


class Join:
    """A query over two streams, or one that stands on both sides.

    Has no timers: an event that is late leaves before anybody looks. What a timer lets out on rows joins, too, but only current events come out.
    """

    def __init__(self, query: Query, app: App) -> None:
        layout = lay_out(query, app)
        self._both = len(layout.sources.names) == 1
        self._table = KeyTable()
        self._text = JoinText(layout)
        self._held = tuple(Held(s, self._table, app.sharding.kind == "key") for s in layout.sides if s.held)
        self._by_element = {held.element: held for held in self._held}
        self._reading = Reading(self._text, layout.sources, self._table)
        self._chunks = 0  # how many chunks there were
        self._ratio = 1.0  # output rows for an event, lately
        self._limit = _SWEEP
        self.elements = tuple(self._by_element)

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch."""
        stretch, read = self._reading.read(given)
        n = len(stretch)
        own: dict[str, Array | int] = {**read, "chunk": stretch.chunk, "opens": self._opens(stretch, read), "base": self._chunks}
        for held in self._held:
            held.ready(n)
            own |= held.own
        picks = Picks(self._text.picked, int(n * self._ratio * 1.1) + _LEAST)
        stop = own["stop"] = np.zeros(5, np.int64)
        while True:
            own |= picks.arrays
            self._text.call(*(own[name] for name in self._text.parameters))
            made = int(stop[1])
            if stop[0] == n:
                break
            picks.grow(made)
        self._ratio = made / n
        self._chunks += int(stretch.chunk[-1]) + 1
        result = picks.stretch(stretch, made, self._table) if made else None
        self._sweep()
        return result

    def _opens(self, stretch: Stretch, read: Mapping[str, Array | int]) -> Longs:
        """The chunks of the output: what comes of a chunk of one stream is one; in a partition it is cut into runs of a key."""
        key = read["key"]
        if self._both or isinstance(key, int) or not len(key):
            return stretch.chunk
        opens = np.empty(len(stretch), np.int64)
        _runs(stretch.chunk, key, opens)
        return opens

    def _sweep(self) -> None:
        """Forget texts that nothing refers to, if there are many."""
        if self._table.count < self._limit:
            return
        used = np.zeros(self._table.room, np.bool_)
        for held in self._held:
            held.mark(used)
        ids = self._table.held()
        self._table.release(ids[~used[ids]])
        self._limit = max(_SWEEP, 2 * self._table.count)

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What left and what came, of both sides."""
        for held in self._held:
            yield from held.changes()

    def contents(self) -> Iterator[Block]:
        """All that is held."""
        for held in self._held:
            yield from held.contents()

    def apply(self, block: Block) -> None:
        """Put back events of a side."""
        self._by_element[block.element].apply(block)

    def clear(self) -> None:
        """Forget all."""
        self._table.clear()
        for held in self._held:
            held.clear()

    def size(self) -> dict[str, int]:
        """Events held, by window."""
        return {held.element: len(held) for held in self._held}


@loop
def _runs(chunk, key, opens):  # type: ignore[no-untyped-def]
    """Numbers runs of one key in a chunk; an event without a key ends none."""
    number, last_chunk, last_key = 0, -1, -1
    for i in range(len(chunk)):
        if key[i] >= 0 and (chunk[i] != last_chunk or key[i] != last_key):
            number += 1
            last_chunk, last_key = chunk[i], key[i]
        opens[i] = number
