"""The operator of patterns that are a chain of plain elements: `every e1=A -> e2=B[price > e1.price] within 5 sec`, in a partition and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.keytable import texts_of
from nadi.kernel.columns.patterns.chaintext import ChainText
from nadi.kernel.columns.patterns.layout import lay_out
from nadi.kernel.columns.patterns.merging import merged, without_nulls
from nadi.kernel.columns.patterns.picking import Picks
from nadi.kernel.columns.patterns.pool import Pool
from nadi.kernel.columns.selecting import Passed
from nadi.kernel.columns.stretch import Array, Stretch
from nadi.plan.chains import as_chain
from nadi.plan.nodes import App, Query, StateInput

_LEAST = 256  # output rows that there is room for at first


class ChainPattern:
    """A query over a chain. Has no timers: a match that ran out of `within` goes before the next event of its key."""

    def __init__(self, query: Query, app: App) -> None:
        assert isinstance(query.input, StateInput)
        chain = as_chain(query.input, app.compat)
        assert chain is not None  # as islands says
        layout = lay_out(query, app, chain)
        self._sources = layout.sources
        self._text = ChainText(layout)
        self._numbered = tuple(int(name[1:]) for name in self._text.parameters if name[0] == "s" and name[1:].isdigit())
        self._wanted = self._columns()
        self._pool = Pool(query.input.id, layout, app.sharding.kind == "key")
        self._anonymous = np.zeros(0, np.int32)
        self.elements = (query.input.id,)

    def _columns(self) -> frozenset[int]:
        """The columns that are read, passed on, or keys."""
        read = {int(name[1:]) for name in self._text.parameters if name[0] in "cm" and name[1:].isdigit()}
        compared = {c for e in self._text.prepared for c in (e.left, e.right) if isinstance(c, int)}
        passed = {one.position for one in self._text.picked if isinstance(one, Passed)}
        return frozenset((*read, *compared, *passed, *self._sources.keys, *self._numbered))

    # ---- a batch

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The output rows of a batch: the matches that its events complete."""
        stretch, origin = merged(given, self._sources, self._wanted)
        pool = self._pool
        read = self._read(stretch, origin)
        pool.ready(len(stretch))
        picks = Picks(self._text.picked, len(stretch) + _LEAST)
        stop = np.zeros(3, np.int64)
        while True:
            held = {
                "words": pool.words,
                "floats": pool.words.view(np.float64),
                "keys": pool.keys,
                "touched": pool.touched,
            }
            own = {**read, **held, "buckets": pool.buckets, "meta": pool.meta, "stop": stop, **picks.arrays}
            self._text.call(*(own[name] for name in self._text.parameters))
            made = int(stop[1])
            if stop[0] == len(stretch):
                break
            picks.grow(made)
        result = picks.stretch(stretch, made, pool.table) if made else None
        pool.sweep()
        return result

    def _read(self, stretch: Stretch, origin: Array) -> dict[str, Array | int]:
        """The parameters that come from the events."""
        found: dict[str, Array | int] = {"n": len(stretch), "ts": stretch.ts, "now": stretch.now, "origin": origin}
        numbers = {column: self._ids(stretch, column) for column in {*self._numbered, *self._sources.keys}}
        found["key"] = self._keys(stretch, origin, numbers) if self._sources.keys else self._anonymous
        found |= {f"s{column}": numbers[column] for column in self._numbered}
        for name in self._text.parameters:
            kind, number = name[0], name[1:]
            if number.isdigit() and name not in found:
                if kind == "c":
                    found[name] = stretch.columns[int(number)].values()
                elif kind == "m":
                    found[name] = stretch.columns[int(number)].nulls()
                elif kind == "p":
                    found[name] = self._text.prepared[int(number)].made(stretch.columns)
        return found

    def _ids(self, stretch: Stretch, column: int) -> Array:
        return self._pool.table.number(texts_of((stretch.columns[column],), (self._sources.types[column],)))

    def _keys(self, stretch: Stretch, origin: Array, numbers: Mapping[int, Array]) -> Array:
        """The key of each event, -1 where it has none."""
        made = np.empty(len(stretch), np.int32)
        for source, column in enumerate(self._sources.keys):
            if len(self._sources.keys) == 1:
                without_nulls(numbers[column], stretch.columns[column].nulls(), made)
            else:
                mine = origin == source
                key = np.where(stretch.columns[column].nulls()[: len(stretch)], -1, numbers[column])
                made[mine] = key[mine]
        return made

    def next_timer(self) -> int | None:
        """Nothing comes out by itself."""
        return None

    # ---- state

    def changes(self) -> Iterator[Block]:
        """Matches that came, went, or wait for another element now."""
        return self._pool.changes()

    def contents(self) -> Iterator[Block]:
        """All matches that wait."""
        return self._pool.contents()

    def apply(self, block: Block) -> None:
        """Put matches back."""
        self._pool.apply(block)

    def clear(self) -> None:
        """Forget all."""
        self._pool.clear()

    def size(self) -> dict[str, int]:
        """How many matches wait."""
        return {self._pool.element: self._pool.size()}
