"""Where every stateful element of the rows kernel keeps what it must not forget.

State is made of *cells*, small containers that note their own changes, so that a delta costs what changed and not what is held:

- `Value`: one plain value, written whole when set;
- `Deque`: appended at the end, taken from the front; the delta is how many were taken and what was appended;
- `Map`: key → value in insertion order; the delta is the changed and removed keys.

An element declares its cells once (`store.element(id, {"held": Deque})`) and asks for them by flow key: `element.at(key)` gives the cells of a
partition key ("" outside partitions), made when first asked for. Cells hold *plain* values: None, bool, int, float, str, bytes, and
lists, tuples, dicts and sets of them (tuples come back as tuples). `Event` is a tuple and comes back as a plain tuple of three: use
`Event(*x)`, or compare fields by position.

Format (version 1): MessagePack. A delta is `[1, [[element, key, {cell: change}], …]]` with the cells that changed, a segment's payload
`[1, [[key, {cell: content}], …]]`. A change or content is `["v", value]`, `["d", taken, [appended…]]`,
`["m", cleared, [[key, value]…], [removed…]]` (removals come first: a key may be removed and set again), or `["x"]` instead of
the cells (the key was dropped; what follows starts from nothing). Extension types 1 to 4 are tuples, sets, frozen sets and dicts with keys
other than text; each holds a MessagePack array (of items, or of tuples of key and value).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from nadi.kernel.contract import Segment
from nadi.kernel.rows.cells import Cell, Cells, Deque, MakesCell, Map, Value
from nadi.kernel.rows.packing import pack, unpack

__all__ = ["VERSION", "Cell", "Cells", "Deque", "Element", "MakesCell", "Map", "Store", "Value", "pack", "unpack"]

VERSION = 1


class Mark:
    """Marks the cells of one element and flow key as changed."""

    __slots__ = ("_dirty", "_id", "_key")

    def __init__(self, id: str, key: str, dirty: dict[tuple[str, str], None]) -> None:  # noqa: A002
        self._id = id
        self._key = key
        self._dirty = dirty

    def __call__(self) -> None:
        self._dirty[self._id, self._key] = None


class Element:
    """The state of one stateful element, per flow key."""

    def __init__(self, id: str, cells: Mapping[str, MakesCell], dirty: dict[tuple[str, str], None]) -> None:  # noqa: A002
        self.id = id
        self._declared = dict(cells)
        self._dirty = dirty
        self._by_key: dict[str, Cells] = {}
        self._dropped: set[str] = set()  # since the last delta: a key that comes again starts from nothing

    def at(self, key: str) -> Cells:
        """The cells for a flow key, made where there are none."""
        found = self._by_key.get(key)
        return self._make(key) if found is None else found

    def _make(self, key: str) -> Cells:
        changed = Mark(self.id, key, self._dirty)
        cells: Cells = {name: kind(changed) for name, kind in self._declared.items()}
        self._by_key[key] = cells
        return cells

    def flow_keys(self) -> Collection[str]:
        """The flow keys that have state, in the order in which they came."""
        return self._by_key.keys()

    def drop(self, key: str) -> None:
        """Forget a key."""
        if self._by_key.pop(key, None) is not None:
            self._dropped.add(key)
            self._dirty[(self.id, key)] = None

    def clear(self) -> None:
        self._by_key.clear()
        self._dropped.clear()

    def size(self) -> int:
        return sum(len(cell) for cells in self._by_key.values() for cell in cells.values())

    def contents(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for key, cells in self._by_key.items():
            yield key, {name: cell.content() for name, cell in cells.items()}

    def changes(self, key: str) -> Iterator[dict[str, Any] | list[str]]:
        """What happened to a key: that it was dropped, and what its cells then went through."""
        if key in self._dropped:
            yield ["x"]
        if (cells := self._by_key.get(key)) is not None:
            yield {name: cell.change() for name, cell in cells.items() if cell.changed()}

    def settle(self, key: str) -> None:
        """From here on the next delta is noted."""
        self._dropped.discard(key)
        for cell in self._by_key.get(key, {}).values():
            cell.settle()

    def apply(self, key: str, change: dict[str, Any] | list[str]) -> None:
        if not isinstance(change, dict):
            self._by_key.pop(key, None)
            return
        cells = self.at(key)
        for name, what in change.items():
            if name in cells:  # a cell that the element no longer declares is let go
                cells[name].apply(what)


class Store:
    """All state of a kernel.

    `group_of` tells the key-group of a flow key; segments are cut by it.
    """

    def __init__(self, group_of: Callable[[str], int]) -> None:
        self._elements: dict[str, Element] = {}
        self._dirty: dict[tuple[str, str], None] = {}
        self._group_of = group_of

    def element(self, id: str, cells: Mapping[str, MakesCell]) -> Element:  # noqa: A002
        """Declare an element; ids are unique in an app.

        Raises:
            ValueError: the id is taken.
        """
        if id in self._elements:
            raise ValueError(f"two elements have the id {id}")
        made = self._elements[id] = Element(id, cells, self._dirty)
        return made

    def delta(self) -> bytes:
        """What changed since the last delta, empty where nothing did; from here on the next one is noted."""
        if not self._dirty:
            return b""
        changes = []
        for element_id, key in self._dirty:
            element = self._elements[element_id]
            changes += [[element_id, key, change] for change in element.changes(key)]
            element.settle(key)
        self._dirty.clear()
        return pack([VERSION, changes])

    def dump(self) -> Iterator[Segment]:
        """All state by element and key-group; changes noted so far count as delivered with it."""
        for element_id, key in self._dirty:
            self._elements[element_id].settle(key)
        self._dirty.clear()
        for element in self._elements.values():
            by_group: dict[int, list[Any]] = {}
            for key, content in element.contents():
                by_group.setdefault(self._group_of(key), []).append([key, content])
            for group, entries in sorted(by_group.items()):
                yield Segment(element.id, group, pack([VERSION, entries]))

    def load(self, state: Iterable[Segment | bytes]) -> None:
        """Replace all state: segments, then deltas. Elements that are not declared (any more) are let go."""
        for element in self._elements.values():
            element.clear()
        for part in state:
            if isinstance(part, Segment):
                entries = [[part.element, key, content] for key, content in unpack(part.payload)[1]]
            else:
                entries = unpack(part)[1] if part else []
            for element_id, key, change in entries:
                if (found := self._elements.get(element_id)) is not None:
                    found.apply(key, change)
        self._dirty.clear()
        for element in self._elements.values():
            for key in element.flow_keys():
                element.settle(key)

    def drop(self, key: str, prefixes: tuple[str, ...]) -> None:
        """Forget a flow key in all elements whose id starts with one of the prefixes."""
        for id, element in self._elements.items():  # noqa: A001
            if id.startswith(prefixes):
                element.drop(key)

    def size(self) -> dict[str, int]:
        """Entries held per element."""
        return {id: element.size() for id, element in self._elements.items()}  # noqa: A001
