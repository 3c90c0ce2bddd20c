"""What the loop of a join is given of the streams that it reads: times, chunks, keys, values, nulls, strings as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nadi.kernel.columns.joins.layout import Layout
from nadi.kernel.columns.joins.text import JoinText
from nadi.kernel.columns.keytable import KeyTable, texts_of
from nadi.kernel.columns.patterns.merging import without_nulls
from nadi.kernel.columns.stretch import DTYPES, Array, Column, Stretch
from nadi.lang.tree import Type

_NO = np.zeros(0, np.int64)
_NO_KEYS = np.zeros(0, np.int32)


class Reading:
    """Reads the streams of one join, each for itself: the loop takes their events by chunk."""

    def __init__(self, text: JoinText, layout: Layout, table: KeyTable) -> None:
        self._sources = sources = layout.sources
        self._table = table
        self._staged = text.staged
        self._prepared = tuple(text.prepared)
        self._named = tuple(
            (name, name[0], int(name[1:])) for name in text.parameters if name[1:].isdigit() and name[0] in "cmtp"
        )
        self._groups = {
            side.group_text.replace("_", ""): (*sources.keys[side.source :][:1], *(side.start + p for p in side.group))
            for side in layout.sides
            if side.group and side.group_text.startswith("y")
        }
        self._numbered = frozenset(column for _name, kind, column in self._named if kind == "t") | {*sources.keys}
        ends = [*sources.starts[1:], len(sources.types)]
        self._nothing = tuple(
            tuple(map(_nothing, sources.types[start:end])) for start, end in zip(sources.starts, ends, strict=True)
        )

    def read(self, given: Mapping[str, Stretch]) -> dict[str, Array | int]:
        """The parameters that come from the events."""
        found: dict[str, Array | int] = {}
        columns: list[Column] = []
        for source, name in enumerate(self._sources.names):
            stretch = given.get(name)
            columns += self._nothing[source] if stretch is None else stretch.columns
            if self._staged:
                found[f"place_{source}"] = _NO if stretch is None or stretch.origin is None else stretch.origin
            for own in ("ts", "now", "chunk", "group"):
                found[f"{own}_{source}"] = _NO if stretch is None or (array := getattr(stretch, own)) is None else array
        numbers = {column: self._ids(columns[column], column) for column in self._numbered}
        for source in range(len(self._sources.names)):
            found[f"key_{source}"] = self._keys(columns, numbers, source) if self._sources.keys else _NO_KEYS
        for name, places in self._groups.items():
            found[name] = self._table.number(self._texts(columns, places))
        for name, kind, number in self._named:
            match kind:
                case "c":
                    found[name] = columns[number].values()
                case "m":
                    found[name] = columns[number].nulls()
                case "t":
                    found[name] = numbers[number]
                case _:
                    found[name] = self._prepared[number].made(tuple(columns))
        return found

    def prefixes(self, given: Mapping[str, Stretch], found: Mapping[str, Array | int]) -> Iterator[tuple[Array, Array]]:
        """Groups of a partition, and how many bytes of their texts are those of its key."""
        for name, places in self._groups.items():
            source = max(n for n, start in enumerate(self._sources.starts) if start <= places[0])
            stretch = given.get(self._sources.names[source])
            if stretch is not None:
                column = stretch.columns[places[0] - self._sources.starts[source]]
                texts = texts_of((column,), (self._sources.types[places[0]],))
                yield np.asarray(found[name]), pc.binary_length(texts).to_numpy()

    def _texts(self, columns: list[Column], places: tuple[int, ...]) -> pa.Array:
        return texts_of(tuple(columns[p] for p in places), tuple(self._sources.types[p] for p in places))

    def _ids(self, column: Column, number: int) -> Array:
        return self._table.number(texts_of((column,), (self._sources.types[number],)))

    def _keys(self, columns: list[Column], numbers: Mapping[int, Array], source: int) -> Array:
        """The key of each event, -1 where it has none."""
        column = self._sources.keys[source]
        made = np.empty(columns[column].size, np.int32)
        without_nulls(numbers[column], columns[column].nulls(), made)
        return made


def _nothing(kind: Type) -> Column:
    """A column of a stream that has no events."""
    if kind not in DTYPES:
        return Column(pa.nulls(0, pa.string()))
    return Column(None, np.zeros(0, DTYPES[kind]), np.zeros(0, np.bool_))
