"""What a loop over the events of a pattern is given of them: values, nulls, strings as numbers, keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from nadi.kernel.columns.code import Prepared
from nadi.kernel.columns.keytable import KeyTable, texts_of
from nadi.kernel.columns.patterns.merging import merged, without_nulls
from nadi.kernel.columns.patterns.picking import PickedColumns
from nadi.kernel.columns.patterns.sources import Sources
from nadi.kernel.columns.selecting import Passed
from nadi.kernel.columns.stretch import Array, Stretch
from nadi.lang.tree import Type

FIXED = {
    "n": "int64",
    "ts": "const int64[]",
    "now": "const int64[]",
    "key": "const int32[]",
    "origin": "const int8[]",
}
"""Parameters that every loop gets; besides, c<p> and m<p> are the values and nulls of column p, s<p> its strings as numbers, p<n> what Arrow has compared."""


class Text(Protocol):
    """A loop's text, as far as reading is concerned: its parameters, in order, what Arrow is to compare, the output columns."""

    parameters: tuple[str, ...]
    picked: PickedColumns

    @property
    def prepared(self) -> list[Prepared]: ...


class Reading:
    """Reads the streams of one pattern."""

    def __init__(self, text: Text, sources: Sources, table: KeyTable) -> None:
        self._sources = sources
        self._table = table
        self._prepared = tuple(text.prepared)
        self._named = tuple(
            (name, name[0], int(name[1:])) for name in text.parameters if name[1:].isdigit() and name[0] in "cmsp"
        )
        self._by_chunk = "chunks" in text.parameters
        self._numbered = frozenset(column for _name, kind, column in self._named if kind == "s") | {*sources.keys}
        read = {column for _name, kind, column in self._named if kind in "cm"}
        compared = {c for e in self._prepared for c in e.columns}
        passed = {one.position for one in text.picked if isinstance(one, Passed)}
        self._wanted = frozenset(read | compared | passed | self._numbered)

    def read(self, given: Mapping[str, Stretch]) -> tuple[Stretch, dict[str, Array | int]]:
        """The events in order, and the parameters that come from them."""
        stretch, origin = merged(given, self._sources, self._wanted)
        found: dict[str, Array | int] = {"n": stretch.size, "ts": stretch.ts, "now": stretch.now, "origin": origin}
        if self._by_chunk:
            found["chunks"] = stretch.chunk
        numbers = {column: self._ids(stretch, column) for column in self._numbered}
        found["key"] = self._keys(stretch, origin, numbers) if self._sources.keys else _NONE
        for name, kind, number in self._named:
            match kind:
                case "c":
                    found[name] = stretch.values(number)
                case "m":
                    found[name] = stretch.nulls(number)
                case "s":
                    found[name] = numbers[number]
                case _:
                    found[name] = self._prepared[number].made(stretch.columns)
        return stretch, found

    def _ids(self, stretch: Stretch, column: int) -> Array:
        if self._sources.types[column] is Type.STRING and (lies := stretch.lies(column)) is not None:
            return self._table.numbered(stretch.size, lies[1], lies[2])
        return self._table.number(texts_of((stretch.columns[column],), (self._sources.types[column],)))

    def _keys(self, stretch: Stretch, origin: Array, numbers: Mapping[int, Array]) -> Array:
        """The key of each event, -1 where it has none."""
        if len(self._sources.keys) == 1 and stretch.lies(self._sources.keys[0]) is not None:
            return numbers[self._sources.keys[0]]  # none of them is null
        made = np.empty(len(stretch), np.int32)
        for source, column in enumerate(self._sources.keys):
            if len(self._sources.keys) == 1:
                without_nulls(numbers[column], stretch.columns[column].nulls(), made)
            else:
                mine = origin == source
                key = np.where(stretch.columns[column].nulls()[: len(stretch)], -1, numbers[column])
                made[mine] = key[mine]
        return made


_NONE = np.zeros(0, np.int32)
