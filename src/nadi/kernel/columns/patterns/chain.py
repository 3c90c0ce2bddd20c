"""The operator of patterns that are a chain: `every e1=A -> e2=B[price > e1.price] within 5 sec`, `A and B -> C`, in a partition and without."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.patterns.chaintext import ChainText
from nadi.kernel.columns.patterns.layout import lay_out
from nadi.kernel.columns.patterns.matcher import Matcher
from nadi.kernel.columns.patterns.picking import Picks
from nadi.kernel.columns.patterns.pool import Pool
from nadi.kernel.columns.patterns.reading import Reading
from nadi.kernel.columns.stretch import Stretch
from nadi.plan.chains import as_led
from nadi.plan.nodes import App, Query, StateInput

_LEAST = 256  # output rows that there is room for at first


class ChainPattern(Matcher):
    """A query over a chain."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, StateInput)
        chain = as_led(query.input, app.compat)
        assert chain is not None  # as islands says
        layout = lay_out(query, app, chain)
        self._text = ChainText(layout)
        self._pool = Pool(query.input.id, layout, app.sharding.kind == "key")
        super().__init__(self._pool)
        self._reading = Reading(self._text, layout.sources, self._pool.table)

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch: the matches that its events complete."""
        stretch, read = self._reading.read(given)
        pool = self._pool
        pool.ready(len(stretch))
        picks = Picks(self._text.picked, len(stretch) + _LEAST)
        stop = np.zeros(3, np.int64)
        held = {"words": pool.words, "floats": pool.words.view(np.float64), "keys": pool.keys, "touched": pool.touched}
        while True:
            own = {**read, **held, "buckets": pool.buckets, "meta": pool.meta, "stop": stop, **picks.arrays}
            self._text.call(*(own[name] for name in self._text.parameters))
            made = int(stop[1])
            if stop[0] == len(stretch):
                break
            picks.grow(made)
        result = picks.stretch(stretch, made, pool.table) if made else None
        pool.sweep()
        return result

    def forget(self, keys: pa.Array) -> None:
        """Be as if some keys of the partition had never been."""
        self._pool.forget(keys)
