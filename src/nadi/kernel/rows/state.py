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

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from nadi.kernel.contract import Segment

VERSION = 1
_TUPLE, _SET, _FROZEN_SET, _DICT = 1, 2, 3, 4


def _pack_rare(value: Any) -> Any:
    raise NotImplementedError(f"{type(value).__name__} cannot be kept in state")


def _unpack_rare(code: int, data: memoryview) -> Any:
    items = unpack(bytes(data))
    if code == _TUPLE:
        return tuple(items)
    if code == _DICT:
        return dict(items)
    return set(items) if code == _SET else frozenset(items)


def _mark(value: Any) -> Any:
    """What MessagePack has no form of its own for becomes an extension value, so that it comes back as it was."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, tuple):
        return _extension(_TUPLE, value)
    if kind is list:
        return value if _ATOMS.issuperset(map(type, value)) else [_mark(x) for x in value]
    if kind is dict:
        if all(type(k) is str for k in value):
            return {k: _mark(v) for k, v in value.items()}
        return _extension(_DICT, value.items())
    if kind is set or kind is frozenset:
        # sorted, because equal states shall be equal bytes
        return _extension(_SET if kind is set else _FROZEN_SET, sorted(value, key=repr))
    return value


def _extension(code: int, items: Collection[Any]) -> Any:
    plain = _ATOMS.issuperset(map(type, items))
    return msgspec.msgpack.Ext(code, _ENCODER.encode(items if plain else [_mark(x) for x in items]))


_ATOMS = frozenset({int, float, str, bool, bytes, type(None)})
_ENCODER = msgspec.msgpack.Encoder(enc_hook=_pack_rare)
_DECODER = msgspec.msgpack.Decoder(ext_hook=_unpack_rare)


def pack(value: Any) -> bytes:
    """A plain value as bytes.

    >>> unpack(pack((1, [2.5, None], {"a": (3,)})))
    (1, [2.5, None], {'a': (3,)})
    """
    return _ENCODER.encode(_mark(value))


def unpack(data: bytes) -> Any:
    """The value that `pack` was given."""
    return _DECODER.decode(data)


# ---- cells ---------------------------------------------------------------------------------------------------------
#
# A cell says that it changed with the first change after a delta (`changed()`; saying it again does no harm), then only notes what.


class Value:
    """One plain value; None at first. A mutable value must be set again after it was changed."""

    __slots__ = ("_changed", "_noted", "_value")

    def __init__(self, changed: Callable[[], None]) -> None:
        self._value: Any = None
        self._noted = False
        self._changed = changed

    def get(self) -> Any:
        return self._value

    def set(self, value: Any) -> None:
        self._value = value
        if not self._noted:
            self._noted = True
            self._changed()

    def content(self) -> list[Any]:
        return ["v", self._value]

    change = content

    def changed(self) -> bool:
        """Whether it is otherwise than the last delta left it."""
        return self._noted

    def settle(self) -> None:
        """From here on the next delta is noted."""
        self._noted = False

    def apply(self, change: list[Any]) -> None:
        self._value = change[1]

    def __len__(self) -> int:
        return 0 if self._value is None else 1


class Deque:
    """A queue: append at the end, take from the front.

    `first` counts what was ever taken, so what follows the queue can tell what it missed. `items` is what is held: to be read only, by loops
    that look at it for each event.
    """

    __slots__ = ("_appended", "_changed", "_taken", "first", "items")

    def __init__(self, changed: Callable[[], None]) -> None:
        self.items: deque[Any] = deque()
        self._taken = 0  # of what the last delta knew
        self._appended = 0  # how many at the end are new since the last delta
        self._changed = changed
        self.first = 0

    def append(self, item: Any) -> None:
        if not self._appended:
            self._changed()
        self.items.append(item)
        self._appended += 1

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)

    def popleft(self) -> Any:
        items = self.items
        item = items.popleft()
        self.first += 1
        if self._appended > len(items):
            self._appended -= 1  # it came and went between two deltas
        else:
            if not self._taken:
                self._changed()
            self._taken += 1
        return item

    def clear(self) -> None:
        while self.items:
            self.popleft()

    def replace(self, items: Iterable[Any]) -> None:
        """Hold these instead: for the rare change in the middle; costs a whole rewrite."""
        self.clear()
        self.extend(items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]

    def content(self) -> list[Any]:
        return ["d", 0, list(self.items)]

    def changed(self) -> bool:
        """Whether anything was taken or appended since the last delta."""
        return self._taken > 0 or self._appended > 0

    def change(self) -> list[Any]:
        tail = [self.items[i] for i in range(-self._appended, 0)]
        return ["d", self._taken, tail]

    def settle(self) -> None:
        self._taken = self._appended = 0

    def apply(self, change: list[Any]) -> None:
        for _ in range(change[1]):
            self.items.popleft()
        self.first += change[1]
        self.items.extend(change[2])


_CLEAN: dict[Any, bool] = {}
"""What every Map notes that has not changed: stays empty, so that millions of them need no dict each."""


class Map:
    """Key → value, in insertion order. A mutable value that was changed in place must be `touch`ed."""

    __slots__ = ("_changed", "_cleared", "_dirty", "_items")

    def __init__(self, changed: Callable[[], None]) -> None:
        self._items: dict[Any, Any] = {}
        # changed since the last delta, in order; True: removed, perhaps to come again at the end
        self._dirty: dict[Any, bool] = _CLEAN
        self._cleared = False
        self._changed = changed

    def get(self, key: Any, default: Any = None) -> Any:
        return self._items.get(key, default)

    def set(self, key: Any, value: Any) -> None:
        items, dirty = self._items, self._dirty or self._noting()
        if key not in items:
            # new keys are noted in the order in which they came, so that the replayed state has the same order
            dirty[key] = dirty.pop(key, False)
        elif key not in dirty:
            dirty[key] = False
        items[key] = value

    def touch(self, key: Any) -> None:
        dirty = self._dirty or self._noting()
        if key not in dirty:
            dirty[key] = False

    def pop(self, key: Any, default: Any = None) -> Any:
        if key not in self._items:
            return default
        dirty = self._dirty or self._noting()
        dirty[key] = True
        return self._items.pop(key)

    def _noting(self) -> dict[Any, bool]:
        self._changed()
        self._dirty = {}
        return self._dirty

    def clear(self) -> None:
        self._items.clear()
        self._dirty = _CLEAN
        self._cleared = True
        self._changed()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: Any) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def keys(self) -> Iterable[Any]:
        return self._items.keys()

    def values(self) -> Iterable[Any]:
        return self._items.values()

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._items.items()

    def content(self) -> list[Any]:
        return ["m", True, [[k, v] for k, v in self._items.items()], []]

    def changed(self) -> bool:
        """Whether any key was set, touched or removed since the last delta."""
        return self._cleared or bool(self._dirty)

    def change(self) -> list[Any]:
        kept = [[k, self._items[k]] for k in self._dirty if k in self._items]
        return ["m", self._cleared, kept, [k for k, removed in self._dirty.items() if removed]]

    def settle(self) -> None:
        self._dirty = _CLEAN
        self._cleared = False

    def apply(self, change: list[Any]) -> None:
        if change[1]:
            self._items.clear()
        for key in change[3]:
            self._items.pop(key, None)
        for key, value in change[2]:
            self._items[key] = value


class Cell(Protocol):
    """What every cell can do; elements with state of a form of its own bring theirs (`nadi.kernel.rows.patterns.matches`)."""

    def __len__(self) -> int: ...
    def content(self) -> list[Any]: ...
    def changed(self) -> bool: ...
    def change(self) -> list[Any]: ...
    def settle(self) -> None: ...
    def apply(self, change: list[Any]) -> None: ...


MakesCell = Callable[[Callable[[], None]], Cell]
"""Makes an empty cell, given what it calls with its first change after a delta."""

Cells = dict[str, Any]
"""The cells of one element for one flow key, by name (typed Any: an element knows what it declared)."""


# ---- elements and the store ----------------------------------------------------------------------------------------


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
