"""What the columns kernel wrote of a state that is put into another version of its app, or into another number of buckets.

A query that stays on columns takes its blocks along: they name keys by their texts, so that blocks of several buckets are put together, and taken apart by
key-group. What goes to rows is made the rows kernel's first, and then treated like everything else there (`RowsView`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from nadi.kernel.contract import Segment
from nadi.kernel.keys import COUNTER, NUMBERS
from nadi.kernel.rows.payloads import Entry, elements_of, encode_entries, entries_of
from nadi.kernel.segments import halves, is_flat
from nadi.plan.columns.islands import islands
from nadi.plan.migration import KEPT, MIGRATED
from nadi.plan.nodes import App, Partition
from nadi.plan.owners import Owners, keys_id, purged
from nadi.plan.restore import RestorePlan

if TYPE_CHECKING:
    from nadi.kernel.columns.folding import Folded

CLOCK = "app/clock"
Wanted = Callable[[str], bool]
Home = Callable[[int], int]
"""Key-group → the new bucket that has it."""


class State(Protocol):
    """As in `nadi.persistence.restoredstate`."""

    @property
    def buckets(self) -> int: ...
    def segments(self, bucket: int, wanted: Wanted) -> Iterator[Segment]: ...
    def deltas(self, bucket: int) -> Iterator[bytes]: ...


def everything(_element: str) -> bool:
    """All elements."""
    return True


def columns_of(app: App, flat: Iterable[str], rows: Iterable[str]) -> frozenset[str]:
    """The queries and tables that are on columns, by the elements that columns wrote and those that rows wrote; none where columns wrote nothing.

    It is what a kernel finds that loads them: what is on rows in any case is no reason for anything else to be where it would not be without a state.
    """
    if not any(True for _ in flat):
        return frozenset()
    owners, able = Owners(app), islands(app).owners
    there = {owner for element in rows if (owner := owners.of(element)) in able}
    return islands(app, there).owners if there else able


def written_on_columns(state: State, app: App) -> frozenset[str]:
    """The queries and tables of the app that a state is of whose part the columns kernel wrote: reads all of it."""
    if not has_columns(state):
        return frozenset()
    from nadi.kernel.columns.flat import elements_of as of_flat

    flat: set[str] = set()
    rows: set[str] = set()
    for bucket in range(state.buckets):
        for segment in state.segments(bucket, everything):
            (flat if is_flat(segment.payload) else rows).add(segment.element)
        for delta in state.deltas(bucket):
            of_rows, of_columns = halves(delta)
            rows |= elements_of(of_rows)
            flat |= of_flat(of_columns)
    return columns_of(app, flat, rows)


def has_columns(state: State) -> bool:
    """Whether the columns kernel wrote some of a state: then it wrote what comes first."""
    return any(
        segment is not None and is_flat(segment.payload)
        for bucket in range(state.buckets)
        for segment in [next(state.segments(bucket, everything), None)]
    )


class ColumnsState:
    """The part of columns. `plan` tells what stays there, `home` to which bucket a key-group goes, `moves` whether they go to other ones."""

    def __init__(self, state: State, plan: RestorePlan, old: App, new: App, home: Home, moves: bool) -> None:
        self._state, self._plan = state, plan
        self._old, self._new = old, new
        self._home, self._moves = home, moves
        ids = (*(q.id for q in new.queries), *(table.id for table in new.tables.values()), *map(keys_id, purged(new)))
        self._part = islands(new, [id for id in ids if id not in plan.on_columns])  # noqa: A001
        self._owners = Owners(new)
        self._folded: dict[int, Folded] = {}
        self.rows = RowsView(state, self)

    @property
    def alone(self) -> bool:
        """Whether nothing goes to rows."""
        return self._part.columns

    def has(self, element: str) -> bool:
        """Whether an element of the new app is on columns."""
        if element.endswith(NUMBERS):
            stream = element.removesuffix(NUMBERS)
            if self._part.columns:
                return stream in self._new.streams
            return self._owners.of(element) in self._part.owners and stream not in self._part.given_on
        return self._owners.of(element) in self._part.owners

    def folded(self, bucket: int) -> Folded:
        """What columns wrote of an old bucket."""
        if bucket not in self._folded:
            from nadi.kernel.columns.folding import Folded

            made = self._folded[bucket] = Folded(self._old, islands(self._old).owners)
            for segment in self._state.segments(bucket, everything):
                if is_flat(segment.payload):
                    made.apply(segment.payload)
            for delta in self._state.deltas(bucket):
                made.apply(halves(delta)[1])
        return self._folded[bucket]

    # ---- what stays

    def parts(self, bucket: int, sources: Iterable[int]) -> Iterator[Segment]:
        """The segments of one new bucket; the clock first, so that a reader knows at once that columns wrote some of it."""
        if not self._part.order:
            return
        import numpy as np

        from nadi.kernel.columns.flat import OF_EACH, Block, encode
        from nadi.kernel.columns.folding import Folded

        def segment(block: Block) -> Segment:
            return Segment(block.element, block.group, encode([block]))

        yield segment(Block(CLOCK, 0, "c", {"now": np.array(self._clocks(bucket), np.int64)}))
        made = Folded(self._new, self._part.owners)
        for source in sources:
            self._take(source, bucket, made)
        for query in made.held:
            for block in made.blocks(query):
                if block.letter == OF_EACH or self._is_here(block.group, bucket):
                    yield segment(block)
        for element, numbers in self._numbers(bucket, sources).items():
            for group, following in sorted(numbers.items()):
                arrays: dict[str, Any] = {"group": np.array([group], np.int16), "next": np.array([following], np.int64)}
                yield segment(Block(element, group, "n", arrays))

    def _take(self, source: int, bucket: int, made: Folded) -> None:
        """Give what an old bucket has to a new one."""
        from nadi.kernel.columns.flat import OF_EACH

        folded, to_key = self.folded(source), self._old.sharding.kind == "key"
        for query in folded.held:
            for block in folded.blocks(query, self._changes(query)):
                element = self._element(block.element)
                if element is not None and (
                    not to_key or block.letter == OF_EACH or self._is_here(block.group, bucket)
                ):
                    made.put(replace(block, element=element))

    @cached_property
    def _fates(self) -> Mapping[str, str]:
        """Old element → new one, of all that are kept."""
        return {f.old: f.new for f in self._plan.fates if f.old and f.new and f.fate in (KEPT, MIGRATED)}

    def _changes(self, query: str) -> bool:
        """Whether an old query has a window of which it matters when events leave: its time is another one now, or who leaves comes out."""
        mine = [f for f in self._plan.fates if f.old.startswith(f"{query}/") and f.kind == "window"]
        shown = {q.id for q in self._new.queries if q.keeps_expired}
        return any(f.change.later or self._owners.of(f.new) in shown for f in mine)

    def _element(self, old: str) -> str | None:
        """Where an element goes on columns."""
        found = self._target(old)
        return found if found is not None and self.has(found) else None

    def _target(self, old: str) -> str | None:
        head = old
        while head and head not in self._fates:
            head = head.rpartition("/")[0]
        return self._fates[head] + old[len(head) :] if head else None

    def _is_here(self, group: int, bucket: int) -> bool:
        if not self._moves or self._new.sharding.kind != "key":
            return True
        return self._home(group) == bucket

    def _clocks(self, bucket: int) -> tuple[int, int]:
        """The clocks of a new bucket: the latest ones where key-groups move."""
        found = [self.folded(b).clocks for b in (range(self._state.buckets) if self._moves else (bucket,))]
        told = [clocks for clocks in found if clocks is not None]
        now, arrivals = max(c.now for c in told), max(c.arrivals for c in told)
        if self._plan.clock == "kept":
            return now, arrivals
        return (0, max(now, arrivals)) if self._plan.clock == "apart" else (arrivals, arrivals)

    def _numbers(self, bucket: int, sources: Iterable[int]) -> dict[str, dict[int, int]]:
        """The next numbers of outputs: of a key-group those of its bucket, of what has no key the greatest."""
        found: dict[str, dict[int, int]] = {}
        for source in range(self._state.buckets) if self._moves else sources:
            for element, numbers in (*self.folded(source).numbers.items(), *self._of_rows(source)):
                if self.has(element):
                    mine = found.setdefault(element, {})
                    for group, following in numbers.items():
                        if group == 0 or self._is_here(group, bucket):
                            mine[group] = max(mine.get(group, 0), following)
        return found

    def _of_rows(self, source: int) -> Iterator[tuple[str, dict[int, int]]]:
        """Numbers that rows wrote, of an output that another query makes now."""
        found: dict[str, dict[int, int]] = {}

        def wanted(element: str) -> bool:
            return element.endswith(NUMBERS) and self.has(element)

        for element, key, cells in self._entries(source, wanted):
            if isinstance(cells, dict):
                group = int(key.removeprefix(COUNTER) or 0)
                found.setdefault(element, {})[group] = cells["next"][1] or 0
        return iter(found.items())

    def _entries(self, source: int, wanted: Wanted) -> Iterator[Entry]:
        """What rows wrote of elements in an old bucket: the entries of segments, then those of deltas."""
        for segment in self._state.segments(source, wanted):
            if not is_flat(segment.payload):
                yield from entries_of(segment.payload, segment.element)
        for delta in self._state.deltas(source):
            yield from (entry for entry in entries_of(halves(delta)[0]) if wanted(entry[0]))

    # ---- what goes to rows

    def to_rows(self, bucket: int, wanted: Wanted) -> Iterator[Segment]:
        """What columns wrote of an old bucket and rows are to go on with, as rows would have written it."""
        folded = self.folded(bucket)
        for query in folded.held:
            if self._goes_to_rows(query) and any(map(wanted, self._elements(query))):
                yield from (
                    segment for segment in folded.as_rows(query, self._changes(query)) if wanted(segment.element)
                )
        for partition in self._old.elements:
            if not isinstance(partition, Partition) or keys_id(partition) in folded.held:
                continue
            if wanted(keys_id(partition)):
                yield from self._keys(partition, folded, bucket)
        for element, numbers in folded.numbers.items():
            if wanted(element) and not self.has(element):
                for group, following in sorted(numbers.items()):
                    key = f"{COUNTER}{group}" if group else ""
                    yield Segment(element, group, encode_entries([("", key, {"next": ["v", following]})]))

    def _elements(self, query: str) -> list[str]:
        """The elements of an old query or table, and what belongs to them."""
        mine = self._mine(query)
        return [*mine, *(f"{element}/{timer}" for element in mine for timer in ("timer", "purge/timer"))]

    def _goes_to_rows(self, query: str) -> bool:
        targets = map(self._target, self._mine(query))
        return any(target is not None and not self.has(target) for target in targets)

    def _mine(self, owner: str) -> list[str]:
        """The elements of an old query; that of a table has the table's id."""
        return [f.old for f in self._plan.fates if f.old == owner or f.old.startswith(f"{owner}/")]

    def _keys(self, partition: Partition, folded: Folded, bucket: int) -> Iterator[Segment]:
        """The keys of a partition that only queries on columns knew: those that keep something, in any order."""
        mine = [q.id for q in partition.queries if q.id in folded.held and self._goes_to_rows(q.id)]
        if not mine:
            return
        known = self._known(keys_id(partition), bucket)
        found: dict[int, dict[str, None]] = {}
        for query in mine:
            for segment in folded.as_rows(query):
                keys = found.setdefault(segment.group, {})
                keys.update(dict.fromkeys(key for _element, key, _cells in entries_of(segment.payload)))
        number = max(known.values(), default=0)
        seen = folded.clocks.arrivals if folded.clocks is not None else 0
        for group, keys in sorted(found.items()):
            entries = []
            for key in keys:
                if key in known:
                    continue
                number += 1
                entries.append(("", key, {"number": ["v", number], "seen": ["v", seen]}))
            yield Segment(keys_id(partition), group, encode_entries(entries))

    def _known(self, element: str, bucket: int) -> dict[str, int]:
        """The keys of a partition that rows know, with their numbers."""
        found: dict[str, int] = {}
        for _element, key, cells in self._entries(bucket, element.__eq__):
            if isinstance(cells, dict):
                found[key] = cells["number"][1] if "number" in cells else found.get(key, 0)
            else:
                found.pop(key, None)
        return found


class RowsView:
    """A state as if rows had written all of it that rows are to go on with. Implements `State`."""

    def __init__(self, state: State, columns: ColumnsState) -> None:
        self._state = state
        self._columns = columns

    @property
    def buckets(self) -> int:
        """How many there are."""
        return self._state.buckets

    def segments(self, bucket: int, wanted: Wanted) -> Iterator[Segment]:
        """Those of rows, then what was made of those of columns."""
        has_clock = False
        for segment in self._state.segments(bucket, wanted):
            if not is_flat(segment.payload):
                has_clock = has_clock or segment.element == CLOCK
                yield segment
        clocks = self._columns.folded(bucket).clocks
        if wanted(CLOCK) and not has_clock and clocks is not None:
            cells = {"now": ["v", (clocks.now, clocks.arrivals)]}
            yield Segment(CLOCK, 0, encode_entries([("", "", cells)]))
        yield from self._columns.to_rows(bucket, wanted)

    def deltas(self, bucket: int) -> Iterator[bytes]:
        """Those of rows."""
        return (rows for delta in self._state.deltas(bucket) if (rows := halves(delta)[0]))
