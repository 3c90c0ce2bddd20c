"""What comes after the selection of a query: order by, offset and limit within each chunk, then the output rate (semantics/selection.md#order-limit-offset)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nadi.kernel.columns.contract import Begins, Forgets, Operator, Stateful, check
from nadi.kernel.columns.flat import Block
from nadi.kernel.columns.grouplimits import LastOfGroups, OneOfKeys
from nadi.kernel.columns.keylast import LastOfKeys
from nadi.kernel.columns.keylimits import AllOfKeys
from nadi.kernel.columns.limiting import AllOfCount, EveryTime, FirstOfTime, Limiter, OneOfCount
from nadi.kernel.columns.stretch import Array, Column, Longs, Stretch
from nadi.lang.tree import Type
from nadi.plan.nodes import Attr, JoinInput, Query, Rate, Selection

Keyed = AllOfKeys | LastOfKeys


class Finishing:
    """An operator, and what is done with its rows. Behind their own columns they have some of `keys`, where the output rate looks at them; the attribute
    `home` of what the query reads is the key of its partition.
    """

    def __init__(
        self,
        query: Query,
        inner: Operator,
        keys: tuple[Type, ...] = (),
        sharded: bool = False,
        home: int | None = None,
    ) -> None:
        self._inner = inner
        self._home = 0 if home is None else home
        self._stateful = inner if isinstance(inner, Stateful) else None
        selection = query.selection
        cuts = bool(selection.order_by or selection.limit is not None or selection.offset)
        self._ordering = Ordering(selection) if cuts else None
        self._joins = isinstance(query.input, JoinInput)
        self._limiter: Limiter | None = None
        self._keyed: Keyed | None = None  # the limiter, where keys begin with events
        elements = self._stateful.elements if self._stateful is not None else ()
        self._rate = ""
        if query.rate is not None:
            self._rate = query.rate.id
            self._limiter = _limiter(query, query.rate, keys, sharded)
            if isinstance(self._limiter, (AllOfKeys, LastOfKeys)):
                self._keyed = self._limiter
            elements = (*elements, self._rate)
        self.elements = elements

    def begin(self, now: int) -> None:
        """The app starts."""
        if isinstance(self._inner, Begins):
            self._inner.begin(now)
        if self._limiter is not None:
            self._limiter.begin(now)

    def process(self, given: Mapping[str, Stretch], until: int) -> Stretch | None:
        """The rows of a batch that go on."""
        if self._keyed is not None:
            for stretch in given.values():
                self._keyed.came(stretch, self._home)
        due = self._stateful.next_timer() if self._stateful is not None and not given else None
        made = self._inner.process(given, until) if given or (due is not None and due <= until) else None
        if made is not None and self._ordering is not None:
            made = self._ordering.process(made)
            if made is not None and self._joins:  # what each event brings is put in order, and goes on with its chunk
                assert made.origin is not None
                made = Stretch(made.columns, made.ts, made.now, made.origin, made.group)
        return made if self._limiter is None else self._limiter.process(made, until)

    def next_timer(self) -> int | None:
        """When something comes out by itself."""
        inner = None if self._stateful is None else self._stateful.next_timer()
        own = None if self._limiter is None else self._limiter.next_timer()
        return min((due for due in (inner, own) if due is not None), default=None)

    def forget(self, keys: pa.Array) -> None:
        """Forget some keys of a partition; there is no rate then."""
        if isinstance(self._inner, Forgets):
            self._inner.forget(keys)

    # ---- state

    def changes(self) -> Iterator[Block]:
        """What changed inside, and of the rate."""
        if self._stateful is not None:
            yield from self._stateful.changes()
        if self._limiter is not None:
            yield from self._limiter.changes()

    def contents(self) -> Iterator[Block]:
        """All that is held inside, and by the rate."""
        if self._stateful is not None:
            yield from self._stateful.contents()
        if self._limiter is not None:
            yield from self._limiter.contents()

    def apply(self, block: Block) -> None:
        """Put back what either told."""
        if self._limiter is not None and block.element == self._rate:
            self._limiter.apply(block)
        elif self._stateful is not None:
            self._stateful.apply(block)

    def check(self) -> None:
        """See whether what was loaded fits together."""
        check(self._inner)
        check(self._limiter)

    def clear(self) -> None:
        """Forget all."""
        if self._stateful is not None:
            self._stateful.clear()
        if self._limiter is not None:
            self._limiter.clear()

    def size(self) -> dict[str, int]:
        """Entries inside, and of the rate."""
        held = {} if self._stateful is None else self._stateful.size()
        return held if self._limiter is None else {**held, self._rate: self._limiter.size()}


def _limiter(query: Query, rate: Rate, keys: tuple[Type, ...], sharded: bool) -> Limiter:
    types, grouped = query.selection.schema.types, bool(query.selection.group_by)
    counted = rate.kind == "last" and rate.events is not None and not grouped
    if keys and query.partition is not None and rate.kind != "first" and not counted:
        return AllOfKeys(rate, types, keys, sharded) if rate.kind == "all" else LastOfKeys(rate, types, keys, sharded)
    if keys and (rate.kind == "first" or (query.partition is not None and not grouped)):
        return OneOfKeys(rate, types, keys, grouped, sharded)
    if rate.kind == "snapshot" or (rate.kind == "last" and keys):
        return LastOfGroups(rate, types, keys)
    if rate.every is not None:
        return FirstOfTime(rate.id, rate.every) if rate.kind == "first" else EveryTime(rate, rate.every, types)
    count = rate.events or 1
    return AllOfCount(rate.id, count, types) if rate.kind == "all" else OneOfCount(rate, count)


class Ordering:
    """`order by … limit … offset …`: of each chunk by itself. Sorts are stable, nulls come last in both directions."""

    def __init__(self, selection: Selection) -> None:
        self._by = [(e.position, e.type, up) for e, up in selection.order_by if isinstance(e, Attr)]
        self._offset, self._limit = selection.offset or 0, selection.limit

    def process(self, rows: Stretch) -> Stretch | None:
        """The rows in order, those that are left."""
        if self._by and not rows.alone:
            rows = rows.take(self._order(rows))
        if not self._offset and self._limit is None:
            return rows
        place = _places(rows.chunk)
        kept = place >= self._offset
        if self._limit is not None:
            kept &= place < self._offset + self._limit
        if kept.all():
            return rows
        return rows.take(np.flatnonzero(kept)) if kept.any() else None

    def _order(self, rows: Stretch) -> Longs:
        """The least significant first, the chunk last."""
        if any(np.isnan(rows.columns[p].values()).any() for p, kind, _up in self._by if kind in _FRACTIONS):
            return self._order_as_rows(rows)
        order = np.arange(len(rows))
        for position, kind, up in reversed(self._by):
            column = rows.columns[position]
            nulls = column.nulls()[: len(rows)]
            order = order[_sorted(_ranks(column, kind, nulls)[order], up)]
            if nulls.any():
                order = order[np.argsort(nulls[order], kind="stable")]
        return order[np.argsort(rows.chunk[order], kind="stable")]

    def _order_as_rows(self, rows: Stretch) -> Longs:
        """With NaN, which is neither less nor more than anything, only the same sort gives the same order."""
        columns = {position: rows.columns[position].array().to_pylist() for position, _kind, _up in self._by}
        order: list[int] = []
        for run in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows.chunk)) + 1):
            places: list[int] = run.tolist()
            for position, _kind, up in reversed(self._by):
                values = columns[position]
                places.sort(key=lambda i: ((values[i] is None) is up, _comparable(values[i])), reverse=not up)
            order += places
        return np.array(order, np.int64)


_FRACTIONS = (Type.FLOAT, Type.DOUBLE)


def _comparable(value: Any) -> Any:
    if value is None:
        return 0
    return value.encode("utf-16-be", "surrogatepass") if type(value) is str else value


def _sorted(ranks: Array, up: bool) -> Longs:
    if up:
        return np.argsort(ranks, kind="stable")
    return len(ranks) - 1 - np.argsort(ranks[::-1], kind="stable")[::-1]


def _ranks(column: Column, kind: Type, nulls: Array) -> Array:
    """Numbers that are ordered as the values are; 0 for null."""
    if kind is not Type.STRING:
        return np.where(nulls, 0, column.values())
    coded = column.array().dictionary_encode()
    texts = coded.dictionary
    rank = np.empty(len(texts) + 1, np.int64)
    rank[_by_unit(texts)] = np.arange(len(texts))
    return np.where(nulls, 0, rank[coded.indices.fill_null(len(texts)).to_numpy()])


def _by_unit(texts: pa.Array) -> Longs:
    """The order of texts by UTF-16 code unit, as Java has it: that of UTF-8 unless there are characters beyond 16 bits."""
    data = texts.buffers()[2]
    if data is None or not (np.frombuffer(data, np.uint8) >= 0xF0).any():
        found: Longs = pc.sort_indices(texts).to_numpy()
        return found
    units = [_comparable(text) for text in texts.to_pylist()]
    return np.array(sorted(range(len(units)), key=units.__getitem__), np.int64)


def _places(chunk: Longs) -> Longs:
    """The place of each row in its chunk, from 0."""
    opens = np.concatenate([[True], np.diff(chunk) != 0])
    firsts = np.flatnonzero(opens)
    places: Longs = np.arange(len(chunk)) - firsts[np.cumsum(opens) - 1]
    return places
