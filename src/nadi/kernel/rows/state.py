"""Where every stateful element of the rows kernel keeps what it must not forget.

State is made of *cells*, small containers that note their own changes, so that a delta costs what changed and not what is held:

- `Value`: one plain value, written whole when set;
- `Deque`: appended at the end, taken from the front; the delta is how many were taken and what was appended;
- `Map`: key → value in insertion order; the delta is the changed and removed keys.

An element declares its cells once (`store.element(id, {"held": Deque})`) and asks for them by flow key: `element.at(key)` gives the cells of a
partition key ("" outside partitions), made when first asked for. Cells hold *plain* values: None, bool, int, float, str, bytes, and
lists, tuples, dicts and sets of them (tuples come back as tuples). `Event` is a tuple and comes back as a plain tuple of three: use
`Event(*x)`, or compare fields by position.

Format (version 2; version 1 is read, too): `nadi.kernel.rows.payloads`. A change, or the content as a change of an empty cell, is `("v", value)`,
`("d", taken, [appended…])` or `("m", cleared, [(key, value)…], [removed…])` (removals come first: a key may be removed and set again). A dropped key comes
before what follows it, which starts from nothing.

A segment of a dump has about SEGMENT_BYTES, and more than MOST_BYTES only where a single value or entry has (`nadi.kernel.rows.segments`): what an element
holds in a key-group makes as many as it takes, and the entries of one large cell may be spread over several. They belong together, in the order in which
they come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from nadi.kernel.contract import Segment
from nadi.kernel.damage import fitting
from nadi.kernel.keys import counted_group
from nadi.kernel.rows.cells import Cell, Cells, Change, Deque, MakesCell, Map, Value
from nadi.kernel.rows.messagepack import pack, unpack
from nadi.kernel.rows.payloads import VERSION, Block, CellChanges, decode, encode, entries_of, is_version_1
from nadi.kernel.rows.segments import segments

__all__ = ["VERSION", "Cell", "Cells", "Deque", "Element", "MakesCell", "Map", "Store", "Value", "pack", "unpack"]


class Mark:
    """Marks the cells of one flow key as changed."""

    __slots__ = ("_dirty", "_key")

    def __init__(self, key: str, dirty: dict[str, None]) -> None:
        self._key = key
        self._dirty = dirty

    def __call__(self) -> None:
        self._dirty[self._key] = None


class Element:
    """The state of one stateful element, per flow key."""

    def __init__(self, id: str, cells: Mapping[str, MakesCell]) -> None:  # noqa: A002
        self.id = id
        self._declared = dict(cells)
        self._kinds = tuple(cells.items())
        self._by_key: dict[str, Cells] = {}
        self._dirty: dict[str, None] = {}
        self._dropped: set[str] = set()  # since the last delta: a key that comes again starts from nothing
        self._settled: int | None = 0  # entries after the last delta; None: they are still to be counted

    def at(self, key: str) -> Cells:
        """The cells for a flow key, made where there are none."""
        found = self._by_key.get(key)
        return self._make(key) if found is None else found

    def _make(self, key: str) -> Cells:
        changed = Mark(key, self._dirty)
        cells: Cells = {name: kind(changed) for name, kind in self._kinds}
        self._by_key[key] = cells
        return cells

    def flow_keys(self) -> Collection[str]:
        """The flow keys that have state, in the order in which they came."""
        return self._by_key.keys()

    def drop(self, key: str) -> None:
        """Forget a key."""
        if (cells := self._by_key.pop(key, None)) is not None:
            if self._settled is not None:
                self._settled -= sum(len(cell) - cell.grown() for cell in cells.values())
            self._dropped.add(key)
            self._dirty[key] = None

    def clear(self) -> None:
        """Forget all, as if nothing had ever been there."""
        self._by_key.clear()
        self._dropped.clear()
        self._dirty.clear()
        self._settled = 0

    @property
    def is_changed(self) -> bool:
        """Whether there may be something for a delta."""
        return bool(self._dirty)

    def size(self) -> int:
        """Entries; costs what changed since the last delta, after a load once what there is."""
        grown = self._grown()
        if self._settled is None:
            self._settled = sum(len(cell) for cells in self._by_key.values() for cell in cells.values()) - grown
        return self._settled + grown

    def _grown(self) -> int:
        changed = (self._by_key.get(key, {}) for key in self._dirty)
        return sum(cell.grown() for cells in changed for cell in cells.values())

    def contents(self) -> Iterator[tuple[str, dict[str, Change]]]:
        """What each key holds."""
        for key, cells in self._by_key.items():
            yield key, {name: cell.content() for name, cell in cells.items()}

    def take_changes(self) -> Block:
        """What happened since the last delta; from here on the next one is noted."""
        by_key = self._by_key
        keys = [key for key in self._dirty if key in by_key]
        rows = [by_key[key] for key in keys]
        told = []
        for name in self._declared if rows else ():
            cells: list[Cell] = [row[name] for row in rows]
            if self._settled is not None:
                self._settled += sum([cell.grown() for cell in cells])
            changes = [cell.take_change() for cell in cells]
            found = [change for change in changes if change is not None]
            every = len(found) == len(changes)
            at = range(len(found)) if every else [i for i, change in enumerate(changes) if change is not None]
            told.append(CellChanges(name, at, found))
        dropped = [key for key in self._dirty if key in self._dropped] if self._dropped else []
        self._dirty.clear()
        self._dropped.clear()
        return Block(self.id, dropped, keys, told)

    def settle(self) -> None:
        """From here on the next delta is noted."""
        if self._settled is not None:
            self._settled += self._grown()
        for key in self._dirty:
            for cell in self._by_key.get(key, {}).values():
                cell.settle()
        self._dirty.clear()
        self._dropped.clear()

    def apply(self, key: str, change: dict[str, Change] | list[str]) -> None:
        """An entry: what became of one key."""
        if not isinstance(change, dict):
            self._by_key.pop(key, None)
            return
        cells = self.at(key)
        for name, what in change.items():
            if name in cells:  # a cell that the element no longer declares is let go
                cells[name].apply(what)

    def apply_block(self, block: Block) -> None:
        """What became of many keys."""
        for key in block.dropped:
            self._by_key.pop(key, None)
        by_key, make = self._by_key, self._make
        rows = [by_key.get(key) or make(key) for key in block.keys]
        every = range(len(rows))
        for cell in block.cells:
            name = cell.name
            if name in self._declared:
                for cells, change in zip(rows if cell.at == every else [rows[i] for i in cell.at], cell.changes):
                    cells[name].apply(change)

    def loaded(self) -> None:
        """All that was to be applied was."""
        self._dirty.clear()
        self._settled = None


class Store:
    """All state of a kernel.

    `group_of` tells the key-group of a flow key; segments are cut by it.
    """

    def __init__(self, group_of: Callable[[str], int]) -> None:
        self._elements: dict[str, Element] = {}
        self._group_of = group_of

    def element(self, id: str, cells: Mapping[str, MakesCell]) -> Element:  # noqa: A002
        """Declare an element; ids are unique in an app.

        Raises:
            ValueError: the id is taken.
        """
        if id in self._elements:
            raise ValueError(f"two elements have the id {id}")
        made = self._elements[id] = Element(id, cells)
        return made

    def delta(self) -> bytes:
        """What changed since the last delta, empty where nothing did; from here on the next one is noted."""
        blocks = [element.take_changes() for element in self._elements.values() if element.is_changed]
        return encode(blocks) if blocks else b""

    def dump(self) -> Iterator[Segment]:
        """All state by element and key-group; changes noted so far count as delivered with it. Each segment is made when it is asked for."""
        for element in self._elements.values():
            element.settle()
        groups: dict[str, int] = {}  # elements have the same keys, and finding a group costs more than looking it up
        for element in self._elements.values():
            by_group: dict[int, list[str]] = {}
            for key in element.flow_keys():
                group = counted_group(element.id, key) if key else None
                if group is None and (group := groups.get(key)) is None:
                    group = groups[key] = self._group_of(key)
                by_group.setdefault(group, []).append(key)
            for group, keys in sorted(by_group.items()):
                yield from segments(element.id, group, ((key, element.at(key)) for key in keys))

    def load(self, state: Iterable[Segment | bytes]) -> None:
        """Replace all state: segments, then deltas. Elements that are not declared (any more) are let go. Errors: STATE_NOT_READABLE."""
        for element in self._elements.values():
            element.clear()
        keys: dict[str, str] = {}  # one object for each, whatever elements have it
        for part in state:
            of, payload = (part.element, part.payload) if isinstance(part, Segment) else ("", part)
            if payload and not (of and of not in self._elements):
                with fitting(f"'{of}'" if of else "a delta"):
                    self._put_back(of, payload, keys)
        for element in self._elements.values():
            element.loaded()

    def _put_back(self, of: str, payload: bytes, keys: dict[str, str]) -> None:
        """A segment of an element, or a delta."""
        if is_version_1(payload):
            for element_id, key, change in entries_of(payload, of):
                if (found := self._elements.get(element_id)) is not None:
                    found.apply(key, change)
        else:
            for block in decode(payload, keys):
                if (found := self._elements.get(block.element or of)) is not None:
                    found.apply_block(block)

    def drop(self, key: str, prefixes: tuple[str, ...]) -> None:
        """Forget a flow key in all elements whose id starts with one of the prefixes."""
        for id, element in self._elements.items():  # noqa: A001
            if id.startswith(prefixes):
                element.drop(key)

    def size(self) -> dict[str, int]:
        """Entries held per element."""
        return {id: element.size() for id, element in self._elements.items()}  # noqa: A001
