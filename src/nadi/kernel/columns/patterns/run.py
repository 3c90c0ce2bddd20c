"""The operator of sequences: `every e1=A, e2=B[…]+, e3=C[…]`, in a partition and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.patterns.keyrows import KeyRows
from nadi.kernel.columns.patterns.picking import Picks
from nadi.kernel.columns.patterns.reading import Reading
from nadi.kernel.columns.patterns.runs import lay_out_run
from nadi.kernel.columns.patterns.runtext import RunText
from nadi.kernel.columns.stretch import Stretch
from nadi.plan.chains import as_run
from nadi.plan.nodes import App, Query, StateInput


class Sequence:
    """A query over a sequence. Has no timers: a match that ran out of `within` goes before the next event of its key."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, StateInput)
        run = as_run(query.input, app.compat)
        assert run is not None  # as islands says
        layout = lay_out_run(query, app, run)
        self._text = RunText(layout)
        self._rows = KeyRows(query.input.id, layout, app.sharding.kind == "key")
        self._reading = Reading(self._text, layout.sources, self._rows.table)
        self.elements = (query.input.id,)

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch: the matches that its events complete."""
        stretch, read = self._reading.read(given)
        rows = self._rows
        rows.ready()
        picks = Picks(self._text.picked, len(stretch))
        completed = np.zeros(1, np.int64)
        held = {"words": rows.words, "floats": rows.words.view(np.float64), "touched": rows.touched}
        own = {**read, **held, "completed": completed, **picks.arrays}
        self._text.call(*(own[name] for name in self._text.parameters))
        made = int(completed[0])
        result = picks.stretch(stretch, made, rows.table) if made else None
        rows.sweep()
        return result

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """The keys that had an event."""
        return self._rows.changes()

    def contents(self) -> Iterator[Block]:
        """All keys."""
        return self._rows.contents()

    def apply(self, block: Block) -> None:
        """Put keys back."""
        self._rows.apply(block)

    def clear(self) -> None:
        """Forget all."""
        self._rows.clear()

    def size(self) -> dict[str, int]:
        """How many keys have begun or hold a match."""
        return {self._rows.element: self._rows.size()}
