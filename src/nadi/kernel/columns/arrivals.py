"""Arrivals as stretches: merged in order, with chunks and clocks (principle.md#order)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nadi.kernel.columns.jit import bare, loop
from nadi.kernel.columns.memory import HEAD, address_of, lying, peek, poke, release, values_at
from nadi.kernel.columns.places import FIRST, LIES, ROW, TEXTS, VALUES
from nadi.kernel.columns.stretch import (
    DTYPES,
    Array,
    BatchColumn,
    Column,
    Longs,
    PlacedStretch,
    Stretch,
    columns_of,
    counted_at,
    none_at,
    values_of,
)
from nadi.kernel.contract import ArrivalBatch
from nadi.plan.nodes import Schema


class Clocks(NamedTuple):
    """The clock of the app and that of the arrivals, ms; the same unless the app is in playback."""

    now: int
    arrivals: int


class Gatherer:
    """Makes stretches of arrivals. `grouped`: the app is sharded by key, key-groups count; `playback`: timestamps move the clock."""

    def __init__(self, schemas: Mapping[str, Schema], grouped: bool, playback: bool) -> None:
        self._widths = {key: len(schema) for key, schema in schemas.items()}
        self._dtypes = {key: tuple(_NUMBERS.get(DTYPES.get(t, "")) for t in s.types) for key, s in schemas.items()}
        self._sizes = {
            key: np.array([d.itemsize if d else 0 for d in (*dtypes, *_MARKS)], np.int64)
            for key, dtypes in self._dtypes.items()
        }
        self._blank = {key: array("q", bytes(8 * ROW * (FIRST + len(found)))) for key, found in self._dtypes.items()}
        self._grouped = grouped
        self._playback = playback
        self._head = np.zeros(HEAD, np.int64)
        self._head_at = address_of(self._head, _LONG)
        self._marks_at = np.zeros(len(_MARKS), np.int64)

    def gather(self, arrivals: Sequence[ArrivalBatch], clocks: Clocks) -> tuple[dict[str, Stretch], Clocks]:
        """The stretch of each input that has events, and the clocks after the last arrival."""
        if len(arrivals) == 1:
            return self._one(arrivals[0], clocks)
        given = [a for a in arrivals if a.batch.num_rows]
        if len(given) > 1:
            return self._merged(given, clocks)
        return self._one(given[0], clocks) if given else ({}, clocks)

    def _one(self, arrival: ArrivalBatch, clocks: Clocks) -> tuple[dict[str, Stretch], Clocks]:
        """One batch: its columns as they are."""
        key, batch = arrival.input, arrival.batch
        n, kinds = batch.num_rows, self._dtypes[key]
        if not n:
            return {}, clocks
        words = self._blank[key][:]
        batch._export_to_c(self._head_at)
        how, last, missing = _opened(
            self._head_at,
            n,
            self._sizes[key],
            words.buffer_info()[0],
            self._marks_at,
            none_at(n),
            counted_at(n),
            clocks.arrivals,
        )
        if how == _UNALIGNED:
            return self._merged([arrival], clocks)
        others: dict[int, Column] = {}
        if missing:
            lies = words[ROW * FIRST + LIES :: ROW]
            others = {at: BatchColumn(batch, at) for at, found in enumerate(lies) if not found}
        if how == _MARKED or self._playback:
            return self._in_chunks(key, batch, words, others, clocks)
        group = values_at(int(self._marks_at[4]), _SHORT, n, batch).astype(np.int64) if self._grouped else None
        return {key: PlacedStretch(n, words, batch, kinds, others, group, None, True)}, Clocks(last, last)

    def _in_chunks(
        self, key: str, batch: pa.RecordBatch, words: array[int], others: dict[int, Column], clocks: Clocks
    ) -> tuple[dict[str, Stretch], Clocks]:
        """The same where several events are in one chunk, or their clocks are not those of the arrivals."""
        n = batch.num_rows
        made, groups = np.empty(2 * n, np.int64), np.empty(n if self._grouped else 0, np.int64)
        at = address_of(made, _LONG)
        words[ROW + VALUES], words[2 * ROW + VALUES] = at, at + 8 * n
        arrived, heard = _mark_lying(
            self._marks_at, clocks.arrivals, clocks.now, self._playback, made[:n], made[n:], groups
        )
        group = groups if self._grouped else None
        stretch = PlacedStretch(
            n, words, (batch, made), self._dtypes[key], others, group, None, bool(made[-1] == n - 1)
        )
        return {key: stretch}, Clocks(heard if self._playback else arrived, arrived)

    def _marked(
        self, columns: tuple[Column, ...], marks: tuple[Array, ...], source: Longs, clocks: Clocks
    ) -> tuple[Stretch, Clocks]:
        order, position, run, ts, group = marks
        n = len(order)
        now, chunk = np.empty(n, np.int64), np.empty(n, np.int64)
        groups = np.empty(n if self._grouped else 0, np.int64)
        arrived, heard = _mark(
            order, position, run, ts, group, source, clocks.arrivals, clocks.now, self._playback, now, chunk, groups
        )
        stretch = Stretch(columns, ts, now, chunk, groups if self._grouped else None)
        return stretch, Clocks(heard if self._playback else arrived, arrived)

    def _merged(self, given: Sequence[ArrivalBatch], clocks: Clocks) -> tuple[dict[str, Stretch], Clocks]:
        """Several batches: merged by their marks, and told apart by input again. An input with one batch keeps its columns as they are."""
        given = sorted(given, key=lambda a: (a.ordinal, a.partition))
        marks, starts = self._marks(given)
        places = np.array([(a.ordinal, a.partition) for a in given], np.int64).reshape(-1, 2).T.copy()
        order = np.empty(starts[-1], np.int64)  # the events, one after the other
        batch = np.empty(starts[-1], np.int64)
        _merge(marks[0], marks[1], marks[2], places[0], places[1], starts, order, batch)
        whole, after = self._marked((), tuple(m[order] for m in marks), batch, clocks)
        now, chunk = np.empty_like(order), np.empty_like(order)
        now[order], chunk[order] = whole.now, whole.chunk
        group = None
        if whole.group is not None:
            group = np.empty_like(order)
            group[order] = whole.group
        made = {}
        for key in dict.fromkeys(a.input for a in given):
            mine = [i for i, a in enumerate(given) if a.input == key]
            width = self._widths[key]
            if len(mine) == 1:
                part = slice(int(starts[mine[0]]), int(starts[mine[0] + 1]))
                columns = columns_of(given[mine[0]].batch, width)
                made[key] = Stretch(
                    columns, marks[3][part], now[part], chunk[part], None if group is None else group[part]
                )
                continue
            at = order[np.isin(batch, mine)]
            shift = np.zeros(len(given), np.int64)  # from a place among all events to that among the input's
            sizes = np.diff(starts)[mine]
            shift[mine] = np.cumsum(sizes) - sizes - starts[mine]
            rows = at + np.repeat(shift, np.diff(starts))[at]
            columns = _joined([given[i].batch for i in mine], width, rows)
            made[key] = Stretch(columns, marks[3][at], now[at], chunk[at], None if group is None else group[at])
        return made, after

    def _marks(self, given: list[ArrivalBatch]) -> tuple[list[Array], Longs]:
        """The marks of batches, one after the other, and where each batch begins."""
        firsts = [self._widths[a.input] for a in given]
        marks = [
            np.concatenate([values_of(a.batch.column(first + i)) for a, first in zip(given, firsts, strict=True)])
            for i in range(5)
        ]
        return marks, np.cumsum([0, *(a.batch.num_rows for a in given)], dtype=np.int64)


_LONG = np.dtype(np.int64)
_NUMBERS = {name: np.dtype(name) for name in ("int32", "int64", "float32", "float64")}
_SHORT = np.dtype(np.int16)
_MARKS = (_LONG, _LONG, np.dtype(np.int32), _LONG, _SHORT)  # as ARRIVAL_COLUMNS
_PLAIN, _MARKED, _UNALIGNED = range(3)
"""Of a batch: each event is a chunk of its own, in the order of time; it is not so; values do not lie as the processor wants them."""


def _joined(batches: list[pa.RecordBatch], width: int, rows: Longs) -> tuple[Column, ...]:
    """The first columns of batches, one after the other, at some places."""
    joined = (pa.concat_arrays([b.column(i) for b in batches]) for i in range(width))
    return tuple(Column(array.take(pa.array(rows))) for array in joined)


@bare
def _opened(head, n, sizes, table, marks, no_nulls, counted, arrived):  # type: ignore[no-untyped-def]
    """Writes the table of an exported batch, lets it go, and looks at its marks; `sizes` are the bytes of a value, 0 where values are not of one size.

    `marks` get where its marks lie. -> what it is like, the clock after a plain one, and how many columns do not lie anywhere.
    """
    first, children, columns = peek(head + 16), peek(head + 48), len(sizes) - 5
    aligned, missing = True, 0
    for c in range(len(sizes)):
        child = peek(children + 8 * c)
        offset, buffers = first + peek(child + 16), peek(child + 40)
        size, texts = sizes[c], peek(buffers + 16) if peek(child + 24) == 3 else 0
        size = size if size > 0 else 4 if texts != 0 else 1
        values = peek(buffers + 8) + offset * size
        aligned = aligned and values % size == 0
        if c < columns:
            row = table + 8 * ROW * (FIRST + c)
            known = (peek(buffers) == 0 or peek(child + 8) == 0) and (sizes[c] > 0 or texts != 0)
            missing += not known
            poke(row, no_nulls)
            poke(row + 8 * VALUES, values)
            poke(row + 8 * TEXTS, texts)
            poke(row + 8 * LIES, (sizes[c] if sizes[c] > 0 else -1) if known else 0)
        else:
            marks[c - columns] = values
    release(head)
    if not aligned:
        return _UNALIGNED, arrived, missing
    poke(table + 8 * VALUES, marks[3])
    poke(table + 8 * (ROW + VALUES), marks[0])
    poke(table + 8 * (2 * ROW + VALUES), counted)
    order, position, run = lying(marks[0], n, np.int64), lying(marks[1], n, np.int64), lying(marks[2], n, np.int32)
    plain = order[0] >= arrived
    for i in range(1, n):
        plain &= (order[i] >= order[i - 1]) & ((position[i] != position[i - 1]) | (run[i] != run[i - 1]))
    return _PLAIN if plain else _MARKED, order[n - 1], missing


@loop
def _mark_lying(marks, arrived, heard, playback, now, chunk, groups):  # type: ignore[no-untyped-def]
    """As `_mark`, for marks of which is known where they lie."""
    n = len(now)
    order, position, run = lying(marks[0], n, np.int64), lying(marks[1], n, np.int64), lying(marks[2], n, np.int32)
    ts, group, alone = lying(marks[3], n, np.int64), lying(marks[4], n, np.int16), marks[:0]
    return _mark(order, position, run, ts, group, alone, arrived, heard, playback, now, chunk, groups)


@loop
def _mark(order, position, run, ts, group, source, arrived, heard, playback, now, chunk, groups):  # type: ignore[no-untyped-def]
    """Chunks, clocks and key-groups of events in order. `source` tells batches apart, empty where there is one; -> both clocks afterwards."""
    n = len(order)
    number = -1
    first = 0
    for i in range(n):
        opens = i == 0 or position[i] != position[i - 1] or run[i] != run[i - 1]
        if not opens and len(source) > 0:
            opens = source[i] != source[i - 1]
        if opens:
            number += 1
            first = i
            if order[i] > arrived:
                arrived = order[i]
            if playback:
                last = i  # the last event of a chunk moves the clock, before the first one travels
                while (
                    last + 1 < n
                    and position[last + 1] == position[last]
                    and run[last + 1] == run[last]
                    and (len(source) == 0 or source[last + 1] == source[last])
                ):
                    last += 1
                if ts[last] > heard:
                    heard = ts[last]
        now[i] = heard if playback else arrived
        chunk[i] = number
        if len(groups) > 0:
            groups[i] = group[first]
    return arrived, heard


@loop
def _merge(order, position, run, ordinals, partitions, starts, merged, batch):  # type: ignore[no-untyped-def]
    """Which event is the next one: of the batches' heads that with the least (order, ordinal, partition, position, run)."""
    heads = starts[:-1].copy()
    for n in range(len(merged)):
        best = -1
        for b in range(len(heads)):
            at = heads[b]
            if at == starts[b + 1]:
                continue
            if best < 0:
                best = b
                continue
            other = heads[best]
            before = False
            if order[at] != order[other]:
                before = order[at] < order[other]
            elif ordinals[b] != ordinals[best]:
                before = ordinals[b] < ordinals[best]
            elif partitions[b] != partitions[best]:
                before = partitions[b] < partitions[best]
            elif position[at] != position[other]:
                before = position[at] < position[other]
            else:
                before = run[at] < run[other]
            if before:
                best = b
        merged[n] = heads[best]
        batch[n] = best
        heads[best] += 1
