"""The operator of sequences: `every e1=A, e2=B[…]+, e3=C[…]`, in a partition and without."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.patterns.keyrows import KeyRows
from nadi.kernel.columns.patterns.matcher import Matcher
from nadi.kernel.columns.patterns.picking import Picks
from nadi.kernel.columns.patterns.reading import Reading
from nadi.kernel.columns.patterns.runs import lay_out_run
from nadi.kernel.columns.patterns.runtext import RunText
from nadi.kernel.columns.stretch import Stretch
from nadi.plan.chains import as_run
from nadi.plan.nodes import App, Query, StateInput


class Sequence(Matcher):
    """A query over a sequence."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, StateInput)
        run = as_run(query.input, app.compat)
        assert run is not None  # as islands says
        layout = lay_out_run(query, app, run)
        self._text = RunText(layout)
        self._rows = KeyRows(query.input.id, layout, app.sharding.kind == "key")
        super().__init__(self._rows)
        self._reading = Reading(self._text, layout.sources, self._rows.table)

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch: the matches that its events complete."""
        stretch, read = self._reading.read(given)
        rows = self._rows
        rows.ready()
        picks = Picks(self._text.picked, len(stretch))
        completed = np.zeros(1, np.int64)
        held = {"words": rows.keys, "floats": rows.keys.view(np.float64), "touched": rows.touched}
        own = {**read, **held, "completed": completed, **picks.arrays}
        self._text.call(*(own[name] for name in self._text.parameters))
        made = int(completed[0])
        result = picks.stretch(stretch, made, rows.table) if made else None
        rows.sweep()
        return result

    def forget(self, keys: pa.Array) -> None:
        """Be as if some keys of the partition had never been."""
        self._rows.forget(keys)
