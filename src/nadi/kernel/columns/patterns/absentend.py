"""The operator of patterns whose last element must stay away: `every e1=A -> not B[k == e1.k] for 5 sec`, outside of partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.patterns.absencetext import BEGAN, CAME, UNORDERED, AbsenceText
from nadi.kernel.columns.patterns.dues import Dues
from nadi.kernel.columns.patterns.layout import lay_out
from nadi.kernel.columns.patterns.matcher import Matcher
from nadi.kernel.columns.patterns.picking import Picks
from nadi.kernel.columns.patterns.places import LAST, LIVE
from nadi.kernel.columns.patterns.pool import Pool
from nadi.kernel.columns.patterns.pooling import last_times
from nadi.kernel.columns.patterns.reading import Reading
from nadi.kernel.columns.stretch import Stretch, empty
from nadi.plan.chains import as_led
from nadi.plan.nodes import App, Query, StateInput

_LEAST = 256  # output rows that there is room for at first


class AbsentEnd(Matcher):
    """A query over such a chain. All that comes out does so when it is time."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, StateInput)
        chain = as_led(query.input, app.compat)
        assert chain is not None  # as islands says
        layout = lay_out(query, app, chain)
        self._text = AbsenceText(layout)
        self._pool = Pool(query.input.id, layout, grouped=False)
        super().__init__(self._pool)
        self._reading = Reading(self._text, layout.sources, self._pool.table)
        self._dues = Dues(query.input.id)
        self._place = layout.place(len(layout.elements) - 1)
        self._applied = False
        first = layout.sources.names[0]
        self._nothing = {first: empty(app.streams[first].schema.types, grouped=False)}

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The matches whose wait was over before the events of a batch, or is up to `until`."""
        stretch, read = self._reading.read(given or self._nothing)
        pool, dues = self._pool, self._dues
        pool.ready(len(stretch))
        if self._applied:  # in which order they stand is not told
            self._applied = False
            dues.clock[[CAME, BEGAN, UNORDERED]] = last_times(pool.words, pool.keys, self._place, int(pool.meta[LAST]))
        dues.room(int(pool.meta[LIVE]) + 2 * len(stretch) + 1)
        picks = Picks(self._text.picked, _LEAST)
        stop = np.zeros(3, np.int64)
        held = {"words": pool.words, "floats": pool.words.view(np.float64), "keys": pool.keys, "touched": pool.touched}
        held |= {"buckets": pool.buckets, "meta": pool.meta, "clock": dues.clock, "dues": dues.dues}
        came = stretch.chunk if stretch.origin is None else stretch.origin
        while True:
            own = {**read, **held, "stop": stop, "until": until, "came": came, **picks.arrays}
            self._text.call(*(own[name] for name in self._text.parameters))
            made = int(stop[1])
            if stop[0] > len(stretch):
                break
            picks.grow(made)
        result = picks.timed(made, pool.table) if made else None
        pool.sweep()
        return result

    def next_timer(self) -> int | None:
        """The time at the front of the queue."""
        return self._dues.next()

    # ---- state

    def changes(self) -> Iterator[Block]:
        """Matches that came, went, or wait for another element now; times that came and went."""
        yield from super().changes()
        yield from self._dues.changes()

    def contents(self) -> Iterator[Block]:
        """All matches that wait, and all times."""
        yield from super().contents()
        yield from self._dues.contents()

    def apply(self, block: Block) -> None:
        """Put matches or times back."""
        self._applied = True
        (self._dues if block.letter == "d" else self._pool).apply(block)

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self._dues.clear()
