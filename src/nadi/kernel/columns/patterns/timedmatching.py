"""The operator of patterns of any shape that wait for absences by the clock: `not A for 5 sec -> B`, in a partition `every e1=A -> not B for 5 sec`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nadi.kernel.columns.keygroups import groups_of
from nadi.kernel.columns.patterns import moving, waking
from nadi.kernel.columns.patterns.matching import Automaton
from nadi.kernel.columns.patterns.partials import BEGUN, NOW
from nadi.kernel.columns.patterns.picking import Picks
from nadi.kernel.columns.patterns.timedtext import TimedText
from nadi.kernel.columns.stretch import Longs, Stretch, empty
from nadi.plan.nodes import App, Query


class TimedAutomaton(Automaton):
    """A query over such a pattern. All rows come with events, or all by themselves: those of an absence at the end."""

    _text_of = TimedText
    _begin = staticmethod(moving.begin)

    def __init__(self, query: Query, app: App) -> None:
        super().__init__(query, app)
        layout = self._layout
        self._ends_away = all(node.kind == "absent" for node in layout.nodes if node.last)
        self._grouped = app.sharding.kind == "key"
        sources = layout.sources
        types = sources.types[: sources.starts[1]] if len(sources.names) > 1 else sources.types
        self._nothing = {sources.names[0]: empty(types, grouped=self._grouped)}

    def begin(self, now: int) -> None:
        """The app starts; outside of partitions so does the wait of a first element."""
        pool = self._pool
        pool.meta[NOW] = now
        if self._layout.times_begin and not self._layout.sources.keys and not pool.keys[BEGUN]:
            self._begin(pool.words, pool.keys, pool.meta, pool.shape, 0, 0)
            waking.offer_all(pool.words, pool.keys, pool.meta, pool.shape, pool.heap, *pool.spelled())
            pool.touched[0] = True

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The matches that events complete, or whose wait was over before these or is up to `until`."""
        stretch, read = self._reading.read(given or self._nothing)
        pool = self._pool
        pool.ready()
        picks, stop = self._begin_batch(len(stretch))
        owner = np.zeros(len(picks.arrays["source"]), np.int64)
        came = stretch.chunk if stretch.origin is None else stretch.origin
        while True:
            own = {**read, **self._held(), "stop": stop, "until": until, "came": came, "heap": pool.heap}
            own |= dict(zip(("starts", "lengths", "texts"), pool.spelled()))
            own |= {"owner": owner, **picks.arrays}
            self._text.call(*(own[name] for name in self._text.parameters))
            made = int(stop[1])
            if stop[0] > len(stretch):
                break
            picks.grow(made, made + int(stop[2]))
            owner = np.concatenate([owner[:made], np.zeros(len(picks.arrays["source"]) - made, np.int64)])
            pool.more(2 * int(stop[2]))
        kept = picks.kept(made)  # all of those that timers make
        result = self._result(picks, stretch, owner[:kept]) if kept else None
        pool.sweep()
        return result

    def _result(self, picks: Picks, stretch: Stretch, owner: Longs) -> Stretch:
        made, table = len(owner), self._pool.table
        if not self._ends_away:
            return picks.stretch(stretch, made, table)
        group = None
        if self._grouped:
            keys, which = np.unique(owner, return_inverse=True)
            group = groups_of(table, keys)[which].astype(np.int64)
        return picks.timed(made, table, group)

    def next_timer(self) -> int | None:
        """When the first wait is over."""
        return self._pool.next_due()
