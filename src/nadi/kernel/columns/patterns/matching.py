"""The operator of patterns of any shape: `every e1=A<2:5> -> e2=B or e3=C`, in a partition and without."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nadi.kernel.columns.patterns.automaton import lay_out_automaton
from nadi.kernel.columns.patterns.automatontext import HIDDEN, STOPS, AutomatonText
from nadi.kernel.columns.patterns.matcher import Matcher
from nadi.kernel.columns.patterns.partialpool import PartialPool
from nadi.kernel.columns.patterns.picking import Picks
from nadi.kernel.columns.patterns.reading import Reading
from nadi.kernel.columns.stretch import Array, Stretch
from nadi.plan.nodes import App, Query, StateInput

_LEAST = 256  # output rows that there is room for at first


class Automaton(Matcher):
    """A query over such a pattern."""

    _text_of: type[AutomatonText] = AutomatonText

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, StateInput)
        layout = self._layout = lay_out_automaton(query, app)
        self._text = self._text_of(layout)
        self._pool = PartialPool(query.input.id, layout, app.sharding.kind == "key")
        super().__init__(self._pool)
        self._reading = Reading(self._text, layout.sources, self._pool.table)

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch: the matches that its events complete."""
        stretch, read = self._reading.read(given)
        pool = self._pool
        pool.ready()
        picks, stop = self._begin_batch(len(stretch))
        while True:
            own = {**read, **self._held(), "stop": stop, **picks.arrays}
            self._text.call(*(own[name] for name in self._text.parameters))
            made = int(stop[1])
            if stop[0] == len(stretch):
                break
            picks.grow(made, made + int(stop[2]))
            pool.more(int(stop[2]))
        made = picks.kept(made)
        result = picks.stretch(stretch, made, pool.table) if made else None
        pool.sweep()
        return result

    def _begin_batch(self, events: int) -> tuple[Picks, Array]:
        """Where a batch's output rows go, and where its loop begins."""
        picks = Picks(self._text.picked, events + _LEAST, HIDDEN if self._layout.within is not None else {})
        stop = np.zeros(STOPS, np.int64)
        stop[-1] = -1
        return picks, stop

    def _held(self) -> dict[str, Array]:
        pool = self._pool
        held = {"words": pool.words, "floats": pool.words.view(np.float64), "keys": pool.keys}
        return held | {"touched": pool.touched, "meta": pool.meta, "shape": pool.shape}
